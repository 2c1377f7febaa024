"""Benchmarks: commands that print figures and compare them with their targets."""
