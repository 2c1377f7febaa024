"""CABS: the batch that keeps gradient noise in proportion to the loss (Balles, Romero, Hennig, UAI 2017).

======  ====================================================================
symbol  meaning
======  ====================================================================
m       batch size                                      m = α · tr(Σ) / F(w)
α       learning rate
tr(Σ)   trace of the covariance of one sample's gradient
F(w)    training loss, with a lowest possible value of 0
======  ====================================================================

Derived for plain SGD from the bound on the expected gain of a step, with F as a stand-in for the distance to
the optimum.  As the loss falls the batch grows, so that no decay of the rate is needed; the rate is *not*
multiplied with the batch.  Both averages forget by 0.95 per measured step, as in the paper.  With Adam tr(Σ)
is measured in Adam's metric, which the paper does not cover.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastane.models.learning_rate import LearningRateRule, StepContext
from elastane.train.adapt.rules import BatchChoice, BatchSituation
from elastane.train.errors import TrainError


@dataclass(frozen=True, slots=True)
class Cabs:
    """m = ``scale`` · α · tr(Σ) / F, clipped to [``smallest``, the job's maximum]; ``scale`` is 1 in the paper."""

    smallest: int = 16
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.smallest < 1 or not self.scale > 0.0:
            raise TrainError(f"cabs: smallest {self.smallest} and scale {self.scale} must be positive")

    def choose(self, situation: BatchSituation) -> BatchChoice:
        """The batch from now on."""
        variance, loss = situation.variance, situation.loss
        if variance is None or loss is None:
            return BatchChoice(situation.total, "not enough measured yet")
        limits = situation.limits
        low = min(self.smallest, limits.initial)
        if loss <= 0.0:
            return BatchChoice(limits.maximum, "the loss is not above zero: as little noise as possible")
        wanted = self.scale * situation.learning_rate * max(variance, 0.0) / loss
        total = round(min(max(wanted, low), limits.maximum))
        return BatchChoice(
            total,
            f"lr {situation.learning_rate:.4g} × variance {variance:.4g} / loss {loss:.4g} = {wanted:.4g}",
        )

    def rate_rule(self, epoch: float) -> LearningRateRule:  # noqa: ARG002 - the coupling is the same in all epochs
        """The owner's rate as it is."""
        return unscaled


def unscaled(step: StepContext) -> tuple[float, ...]:
    """Factor 1 for every parameter group."""
    return (1.0,) * len(step.gains)
