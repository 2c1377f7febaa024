"""Provides cost models, which predict the seconds of operators.  All implement ``contract.CostModel``."""
