"""Sia keeps the promises of the contract."""

from __future__ import annotations

from elastane.policies.sia import Sia
from elastane.testing.policies import PolicyConformance


class TestSia(PolicyConformance):
    policy = Sia()
