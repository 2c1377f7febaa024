"""ElasticFlow keeps the promises of the contract, also where it takes all jobs in."""

from __future__ import annotations

from elastane.policies.elasticflow import ElasticFlow
from elastane.testing.policies import PolicyConformance


class TestElasticFlowTakingAllIn(PolicyConformance):
    policy = ElasticFlow(best_effort=True, safety_s=120.0)
