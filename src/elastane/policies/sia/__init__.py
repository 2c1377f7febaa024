"""Sia (SOSP'23): one small integer program per round over every job's possible configurations."""

from elastane.policies.sia.policy import Sia

__all__ = ["Sia"]
