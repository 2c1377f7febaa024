"""Sia keeps the promises of the contract, also where it maximises; the defaults are tried with all other policies."""

from __future__ import annotations

from elastane.policies.sia import Sia
from elastane.testing.policies import PolicyConformance


class TestSiaThatMaximises(PolicyConformance):
    policy = Sia(p=1.0, penalty=1.5)
