"""Cost models: from operators to seconds.  All are behind ``contract.CostModel``."""
