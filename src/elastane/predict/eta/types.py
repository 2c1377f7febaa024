"""Defines the inputs of the ETA engine: spans of time with one activity each, and the goal of the training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from elastane.errors import ElastaneError
from elastane.predict.eta.stop_rule import EarlyStop
from elastane.predict.interval import Interval


class Doing(Enum):
    """The activity of a training during a span of time; each has a rate of its own."""

    TRAIN = "train"
    VALIDATION = "validation"
    CHECKPOINT = "checkpoint"
    STALL = "stall"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, from ``began_s`` to ``ended_s``, with one activity.

    For training, ``steps`` were taken and ``work`` was done, in the unit of the goal: steps, samples, tokens, or the
    share of the whole.  Times are of one clock, which need not be the wall's.
    """

    doing: Doing
    began_s: float
    ended_s: float
    work: float = 0.0
    steps: int = 1

    @property
    def seconds(self) -> float:
        """The length in seconds; 0 where the clock was set back."""
        length = self.ended_s - self.began_s
        return length if math.isfinite(length) and length > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a training.  ``total`` is all work from the very beginning, None if unknown.

    ``validate_every`` and ``checkpoint_every`` are amounts of work; None means: as often as seen so far.  The prior
    seconds stand for validations and checkpoints until the first was seen, ``work_s`` for a unit of work until enough
    was measured.  ``stop`` may end it before ``total``; a run that ``may_stop_early`` by an unknown rule can end at any
    time.
    """

    total: float | None
    validate_every: float | None = None
    validation_s: float | None = None
    checkpoint_every: float | None = None
    checkpoint_s: float | None = None
    may_stop_early: bool = False
    stop: EarlyStop | None = None
    work_s: Interval | None = None

    def __post_init__(self) -> None:
        if self.total is not None and not 0.0 < self.total < math.inf:
            raise ElastaneError(f"the total work must be above 0, not {self.total}")
        for name in ("validate_every", "checkpoint_every"):
            every = getattr(self, name)
            if every is not None and not every > 0.0:
                raise ElastaneError(f"{name} must be above 0, not {every}")
