"""Elastane's own policy."""

from elastane.policies.elastane.policy import Elastane

__all__ = ["Elastane"]
