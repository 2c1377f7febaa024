"""Themis (NSDI'20): GPUs whose leases end are auctioned to the jobs that are furthest behind a fair finish."""

from elastane.policies.themis.policy import Themis, ThemisOracle

__all__ = ["Themis", "ThemisOracle"]
