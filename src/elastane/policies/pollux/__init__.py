"""Pollux, its objective, and two ways to search it."""

from elastane.policies.pollux.policy import Pollux

__all__ = ["Pollux"]
