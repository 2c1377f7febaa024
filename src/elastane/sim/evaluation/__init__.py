"""Policies compared so that people can believe it: the same jobs, many seeds, intervals, and where we lose."""

from elastane.sim.evaluation.protocol import Protocol
from elastane.sim.evaluation.sizes import SIZES, Size
from elastane.sim.evaluation.study import Study, evaluate

__all__ = ["SIZES", "Protocol", "Size", "Study", "evaluate"]
