"""Workloads: loaders for public traces, synthetic generators, and the built-in ones."""
