"""Compares policies by a fixed protocol: the same jobs, several seeds, intervals, and where our own is not best."""

from elastane.sim.evaluation.protocol import Protocol
from elastane.sim.evaluation.sizes import SIZES, Size
from elastane.sim.evaluation.study import Study, evaluate

__all__ = ["SIZES", "Protocol", "Size", "Study", "evaluate"]
