"""Themis keeps the promises of the contract, also where everybody bids and leases are short."""

from __future__ import annotations

from elastane.policies.themis import Themis
from elastane.testing.policies import PolicyConformance


class TestEverybodyBids(PolicyConformance):
    policy = Themis(f=0.0, lease_s=100.0)
