"""ElasticFlow (ASPLOS'23): deadlines that are kept or refused at once, with as few GPUs as they need."""

from elastane.policies.elasticflow.policy import ElasticFlow, ElasticFlowOracle

__all__ = ["ElasticFlow", "ElasticFlowOracle"]
