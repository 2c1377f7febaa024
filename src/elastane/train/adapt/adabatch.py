"""AdaBatch: the batch grows by a schedule, and the learning rate with it (Devarakonda, Naumov, Garland, 2017).

======  ====================================================================
symbol  meaning
======  ====================================================================
r0, r   the owner's batch; the batch in epoch e: r = r0 · β^⌊e/k⌋
β, k    growth (2) and epochs between growths (20)
α       learning rate; α/r is what counts for convergence
d       what α/r is multiplied with at each growth
======  ====================================================================

The effective rate α/r shall decay as it would with a fixed batch.  So α = α0 · (r/r0) · d^⌊e/k⌋.  In the
paper d = 0.375, hence α falls by β·d = 0.75 every 20 epochs where the fixed batch has 0.375.  With d = 1
(the default) that decay is left to the script's own scheduler, and only the factor r/r0 is added here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from elastane.models.learning_rate import LearningRateRule, StepContext
from elastane.train.adapt.rules import BatchChoice, BatchSituation
from elastane.train.errors import TrainError


@dataclass(frozen=True, slots=True)
class AdaBatch:
    """Grows the total batch ``growth`` times every ``every`` epochs, up to the job's maximum.

    ``schedule`` {epoch: factor on the owner's batch} replaces both; an epoch without an entry has the factor
    of the last one before it.  ``decay`` is d above.
    """

    every: int = 20
    growth: float = 2.0
    schedule: Mapping[int, float] = field(default_factory=dict)
    decay: float = 1.0

    def __post_init__(self) -> None:
        if self.every < 1:
            raise TrainError(f"adabatch: every must be 1 or more epochs, not {self.every}")
        for name, value in (("growth", self.growth), ("decay", self.decay)):
            if not value > 0.0:
                raise TrainError(f"adabatch: {name} must be positive, not {value}")
        for epoch, factor in self.schedule.items():
            if epoch < 0 or not factor > 0.0:
                raise TrainError(f"adabatch: schedule has {{{epoch}: {factor}}}; both must be positive")

    def factor(self, epoch: float) -> float:
        """r/r0 in that epoch."""
        if not self.schedule:
            return self.growth ** self._growths(epoch)
        begun = [start for start in self.schedule if start <= epoch]
        return float(self.schedule[max(begun)]) if begun else 1.0

    def choose(self, situation: BatchSituation) -> BatchChoice:
        """The batch from now on."""
        factor = self.factor(situation.epoch)
        total = round(situation.limits.initial * factor)
        return BatchChoice(total, f"{factor:g} times the owner's batch from the schedule")

    def rate_rule(self, epoch: float) -> LearningRateRule:
        """In proportion to the batch that is really used, with the decay so far."""
        decay = self.decay ** self._growths(epoch)

        def rule(step: StepContext) -> tuple[float, ...]:
            return (step.scale * decay,) * len(step.gains)

        return rule

    def _growths(self, epoch: float) -> int:
        if self.schedule:
            return sum(0 < start <= epoch for start in self.schedule)
        return int(epoch // self.every)
