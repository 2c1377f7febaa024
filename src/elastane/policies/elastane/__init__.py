"""Elastane's own scheduling policy: goodput weighted by shadow prices, with a waiting bound."""

from elastane.policies.elastane.policy import Elastane, ElastaneOracle

__all__ = ["Elastane", "ElastaneOracle"]
