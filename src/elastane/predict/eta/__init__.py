"""Predicts the time left of a running training, from its speed in this session, never from that before a resume."""

from elastane.predict.eta.api import ETA
from elastane.predict.eta.engine import EtaEngine
from elastane.predict.eta.plan import Plan
from elastane.predict.eta.stop_rule import EarlyStop
from elastane.predict.eta.types import Doing, Goal, Span

__all__ = ["ETA", "Doing", "EarlyStop", "EtaEngine", "Goal", "Plan", "Span"]
