"""``StepParts`` are the objects that planning, reducing and applying a step have in common."""

from __future__ import annotations

from dataclasses import dataclass

from elastane.train.worker.batching import Batching
from elastane.train.worker.consensus import Agreement
from elastane.train.worker.host_tail import HostTail
from elastane.train.worker.membership import Membership
from elastane.train.worker.optimizer_setup import OptimizerSetups
from elastane.train.worker.position import Position
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.skipped_units import SkippedParts
from elastane.train.worker.step_cut import LoopSettings
from elastane.train.worker.step_times import StepTimes
from elastane.train.worker.step_units import StepUnits
from elastane.train.worker.telemetry import Reporter


@dataclass(frozen=True, slots=True)
class StepParts:
    """One worker's settings, members, position and gradients, and the units of its present step."""

    settings: LoopSettings
    recipe: Recipe
    membership: Membership
    reporter: Reporter
    position: Position
    agreement: Agreement
    setups: OptimizerSetups
    skips: SkippedParts
    units: StepUnits
    batching: Batching
    times: StepTimes
    host_tail: HostTail
