"""The learning rate of one step: the owner's rate times a factor, and the owner's rate again right after.

Schedulers read and write the owner's rate between steps and never see the factor.  Also keeps the count of
progress: the sum of gains, in steps at the owner's batch M0 ("scale-invariant iterations").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from elastane.models.learning_rate import LearningRateRule, StepContext
from elastane.train.errors import TrainError


class LearningRate:
    """Wraps the real optimizer step: ``with rate.scaled(context): optimizer.step()``.

    ``factor`` is the mean factor of the last step over the parameter groups.
    """

    def __init__(self, rule: LearningRateRule, optimizer: torch.optim.Optimizer) -> None:
        self.rule = rule
        self.optimizer = optimizer
        self.factor = 1.0
        self.progress = 0.0

    def use(self, rule: LearningRateRule) -> None:
        """Follow this rule from the next step on."""
        self.rule = rule

    def resume(self, progress: float) -> None:
        """Go on from the progress that was saved."""
        self.progress = progress

    def factors(self, context: StepContext) -> tuple[float, ...]:
        """What each parameter group's rate will be multiplied with."""
        factors = self.rule(context)
        groups = len(self.optimizer.param_groups)
        if len(factors) == 1:
            return factors * groups
        if len(factors) != groups:
            raise TrainError(
                f"learning-rate rule: gave {len(factors)} factors for an optimizer of {groups} parameter groups"
            )
        return factors

    @contextmanager
    def scaled(self, context: StepContext) -> Iterator[tuple[float, ...]]:
        """Multiply every group's rate; put back the very objects that were there, also after an error."""
        factors = self.factors(context)
        groups = self.optimizer.param_groups
        before = [group["lr"] for group in groups]
        for group, rate, factor in zip(groups, before, factors, strict=True):
            group["lr"] = rate * factor
        try:
            yield factors
        finally:
            for group, rate in zip(groups, before, strict=True):
                group["lr"] = rate
        self.factor = sum(factors) / len(factors)

    def advance(self, gain: float) -> None:
        """One optimizer step was worth ``gain`` steps at M0."""
        self.progress += gain
