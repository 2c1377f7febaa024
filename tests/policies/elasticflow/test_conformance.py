"""ElasticFlow keeps the promises of the contract, with and without refusing jobs."""

from __future__ import annotations

from elastane.policies.elasticflow import ElasticFlow, ElasticFlowOracle
from elastane.testing.policies import PolicyConformance


class TestElasticFlow(PolicyConformance):
    policy = ElasticFlow()


class TestElasticFlowTakingAllIn(PolicyConformance):
    policy = ElasticFlow(best_effort=True, safety_s=120.0)


class TestElasticFlowOracle(PolicyConformance):
    policy = ElasticFlowOracle()
