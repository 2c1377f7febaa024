"""Scales the learning rate with the batch size: a factor on the owner's own rate, per parameter group.

The training library multiplies the rate right before each optimizer step and restores it right after.

========= ============================ ==========================================================
name      factor                       reference
========= ============================ ==========================================================
adascale  gain, per parameter group    Johnson et al., AdaScale SGD, ICML 2020; for plain SGD
adam      √gain, per parameter group   AdaptDL; for optimizers that divide by a second moment
sqrt      √S                           Krizhevsky, 2014
linear    S                            Goyal et al., 2017
legw      √S · min(1, progress / W)    You et al., LEGW, 2019; W = warm-up epochs · S · steps/epoch
========= ============================ ==========================================================

S is the total batch over the owner's batch M0; progress is counted in steps at M0.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from elastane.errors import ElastaneError


@dataclass(frozen=True, slots=True)
class StepContext:
    """The inputs of a rule: S, the gain of each parameter group at S, and how far training has come.

    ``progress`` is the sum of gains so far and ``epoch_steps`` is data set size / M0: both count M0 steps.
    """

    scale: float
    gains: tuple[float, ...] = (1.0,)
    progress: float = 0.0
    epoch_steps: float = 0.0


class LearningRateRule(Protocol):
    """A rule returns one factor per parameter group, to multiply the owner's learning rate with."""

    def __call__(self, step: StepContext) -> tuple[float, ...]:
        """The factors for the optimizer step that comes next."""
        ...


def adascale(step: StepContext) -> tuple[float, ...]:
    """Returns AdaScale's gain of each parameter group: the progress of one step in steps at M0."""
    return step.gains


def adam(step: StepContext) -> tuple[float, ...]:
    """Returns the square root of AdaScale's gain: second moments already shrink with the noise."""
    return tuple(math.sqrt(gain) for gain in step.gains)


def sqrt(step: StepContext) -> tuple[float, ...]:
    """Returns the square root of the batch ratio S for every group."""
    return (math.sqrt(step.scale),) * len(step.gains)


def linear(step: StepContext) -> tuple[float, ...]:
    """Returns the batch ratio S for every group."""
    return (step.scale,) * len(step.gains)


@dataclass(frozen=True, slots=True)
class Legw:
    """Square root with a linear warm-up that grows with the batch, measured in progress and not in steps."""

    warmup_epochs: float = 1.0

    def __call__(self, step: StepContext) -> tuple[float, ...]:
        """The factors for the optimizer step that comes next."""
        warmup_steps = self.warmup_epochs * step.scale * step.epoch_steps
        ramp = min(1.0, step.progress / warmup_steps) if warmup_steps > 0.0 else 1.0
        return (math.sqrt(step.scale) * ramp,) * len(step.gains)


RULES: Mapping[str, LearningRateRule] = MappingProxyType(
    {"adascale": adascale, "adam": adam, "sqrt": sqrt, "linear": linear, "legw": Legw()}
)
"""The rules a job may name."""


def rule_named(name: str) -> LearningRateRule:
    """Returns the rule of that name; an unknown one is an ``ElastaneError`` that names the nearest."""
    rule = RULES.get(name)
    if rule is None:
        nearest = difflib.get_close_matches(name.lower(), RULES, n=1, cutoff=0.0)[0]
        raise ElastaneError(
            f"there is no learning-rate rule {name!r}; did you mean {nearest!r}? (known: {', '.join(RULES)})"
        )
    return rule


def default_rule(adaptive_optimizer: bool) -> LearningRateRule:
    """Returns AdaScale for plain SGD, its square root for Adam and similar optimizers."""
    return adam if adaptive_optimizer else adascale
