"""Optimus: marginal gains from speed and convergence models, for all-reduce and parameter-server jobs."""

from elastane.policies.optimus.policy import Optimus, OptimusOracle

__all__ = ["Optimus", "OptimusOracle"]
