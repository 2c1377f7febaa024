"""Elastic Horovod: state that is committed, and a function that is entered again when workers come or go."""

from __future__ import annotations

from elastane.compat.horovod.elastic.running import run
from elastane.compat.horovod.elastic.sampler import ElasticSampler
from elastane.compat.horovod.elastic.state import ObjectState, State, TorchState

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]
