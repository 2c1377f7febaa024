"""Elastane's own policy."""

from elastane.policies.elastane.policy import Elastane, ElastaneOracle

__all__ = ["Elastane", "ElastaneOracle"]
