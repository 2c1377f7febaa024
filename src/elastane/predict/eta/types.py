"""What the ETA engine is told: spans of time in which a training did one thing, and where it wants to go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from elastane.errors import ElastaneError
from elastane.predict.eta.stop_rule import EarlyStop
from elastane.predict.interval import Interval


class Doing(Enum):
    """What a span of time went into; each kind has a rate of its own."""

    TRAIN = "train"
    VALIDATION = "validation"
    CHECKPOINT = "checkpoint"
    STALL = "stall"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Span:
    """From ``began_s`` to ``ended_s`` one thing was done.

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
        """How long it lasted; a clock that was set back makes it nothing, not less."""
        length = self.ended_s - self.began_s
        return length if math.isfinite(length) and length > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a training ends.  ``total`` is all work from the very beginning, None if nobody knows.

    ``validate_every`` and ``checkpoint_every`` are amounts of work; None means: as often as seen so far.  The prior
    seconds stand for validations and checkpoints until the first was seen, ``work_s`` for a unit of work until enough
    was measured.  ``stop`` may end it before ``total``; a run that ``may_stop_early`` by a rule that nobody told can
    end at any time.
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
