"""Dividing GPUs among jobs by what each number of them is worth: shared by Pollux and by Elastane's own policy."""
