"""Gavel's policies: time fractions per accelerator type, made real in rounds."""

from elastane.policies.gavel.policy import Gavel, GavelOracle

__all__ = ["Gavel", "GavelOracle"]
