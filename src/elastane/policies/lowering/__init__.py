"""Shared code from plans to grants: realise shares, place, guard."""

from elastane.policies.lowering.lower import Lowered, lower

__all__ = ["Lowered", "lower"]
