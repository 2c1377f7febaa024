"""Divides GPUs among jobs by the value of each number of them; Pollux and Elastane's own policy share this code."""
