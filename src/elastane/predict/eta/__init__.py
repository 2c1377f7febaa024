"""Time left of a training that runs: from what it did in this session, never from what it did before a resume."""

from elastane.predict.eta.api import ETA
from elastane.predict.eta.engine import EtaEngine
from elastane.predict.eta.plan import Plan
from elastane.predict.eta.stop_rule import EarlyStop
from elastane.predict.eta.types import Doing, Goal, Span

__all__ = ["ETA", "Doing", "EarlyStop", "EtaEngine", "Goal", "Plan", "Span"]
