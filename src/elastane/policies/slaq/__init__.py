"""SLAQ (SoCC'17): the next GPU goes to the job whose normalised loss it lowers most within the next epoch."""

from elastane.policies.slaq.policy import Slaq

__all__ = ["Slaq"]
