"""Settings say how a job may adapt, in the words of its owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from elastane.models.learning_rate import LearningRateRule
from elastane.models.learning_rate import rule_named as rate_rule_named
from elastane.suggest import did_you_mean
from elastane.train.adapt.rule_registry import rule_named
from elastane.train.adapt.rules import BatchRule, Fixed, PolluxRule
from elastane.train.errors import TrainError

Mode = Literal["fixed", "adaptive", "consistent"]
"""fixed: batch and result as with one worker; adaptive: the batch follows the rule; consistent: same bits."""

_SAFE_GROWTH = 32  # Pollux, OSDI'21: with a fitting learning rate this is usually safe


@dataclass(frozen=True, slots=True)
class AdaptationSettings:
    """``batch0`` is the batch the owner would use on one device; everything else has a default.

    ``max_batch`` bounds the total batch, ``per_worker_max`` declares what one worker can hold (else it is
    tried out).  ``rule`` and ``rate_rule`` are names or objects; None takes what fits the mode and the
    optimizer.  ``epoch_steps`` is the size of the data over ``batch0``, for LEGW.  ``budget`` is the part of a
    step that measuring may cost, ``every_s`` the least time between decisions.  ``reset_moments`` lets Adam
    begin anew whenever the batch changes.
    """

    batch0: int
    mode: Mode = "fixed"
    max_batch: int | None = None
    per_worker_min: int = 1
    per_worker_max: int | None = None
    accumulate: bool = True
    rule: BatchRule | str | None = None
    rate_rule: LearningRateRule | str | None = None
    epoch_steps: float = 0.0
    budget: float = 0.03
    every_s: float = 10.0
    reset_moments: bool = False

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            modes = get_args(Mode)
            raise TrainError(
                f"mode: there is no {self.mode!r}{did_you_mean(str(self.mode), modes)} (known: {', '.join(modes)})"
            )
        if self.batch0 < 1:
            raise TrainError(f"batch size: must be 1 or more, not {self.batch0}")
        if self.max_batch is not None and self.max_batch < self.batch0:
            raise TrainError(f"maximum batch size: {self.max_batch} is below the batch size {self.batch0}")
        if self.per_worker_min < 1:
            raise TrainError(f"per-worker minimum: must be 1 or more, not {self.per_worker_min}")
        if self.per_worker_max is not None and self.per_worker_max < self.per_worker_min:
            raise TrainError(f"per-worker maximum: {self.per_worker_max} is below {self.per_worker_min}")
        if self.every_s < 0.0:
            raise TrainError(f"every_s: must not be negative, not {self.every_s}")

    @property
    def adaptive(self) -> bool:
        """Whether batch and learning rate may change at all."""
        return self.mode == "adaptive"

    @property
    def maximum(self) -> int:
        """The largest total batch."""
        if not self.adaptive:
            return self.batch0
        return self.max_batch if self.max_batch is not None else _SAFE_GROWTH * self.batch0

    def batch_rule(self) -> BatchRule:
        """The rule that decides the batch."""
        if not self.adaptive:
            return Fixed()
        rule = self.rule if self.rule is not None else PolluxRule()
        return rule_named(rule) if isinstance(rule, str) else rule

    def named_rate_rule(self) -> LearningRateRule | None:
        """The learning-rate rule the owner asked for, if any."""
        return rate_rule_named(self.rate_rule) if isinstance(self.rate_rule, str) else self.rate_rule
