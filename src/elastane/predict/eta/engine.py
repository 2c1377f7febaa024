"""Time left of a running training: remaining counts times rates, each kind of doing by itself.

    remaining = work left · seconds per work + validations left · seconds each + checkpoints left · seconds each

Counts come from the goal, rates from this session alone.  Dividing this session's time by the steps of all sessions
is the most frequent mistake of progress bars; here a resume simply begins a new session.  A pure state machine: it
reads no clock and no file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from elastane.predict.eta.rates import rate_of
from elastane.predict.eta.values import Doing, Goal, Span
from elastane.predict.interval import Interval, Unknown

_KEPT = 20_000
"""Training spans remembered; with windows of a second that is hours."""
_OCCASION_SD = 0.1


class EtaEngine:
    """Takes in spans of one training, says how much time is left."""

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.done = 0.0
        self.ended = ""
        self._spans: list[Span] = []
        self._occasions: dict[Doing, list[float]] = {Doing.VALIDATION: [], Doing.CHECKPOINT: []}
        self._at: dict[Doing, list[float]] = {Doing.VALIDATION: [], Doing.CHECKPOINT: []}
        self._elapsed = dict.fromkeys(Doing, 0.0)

    def resume(self, done: float) -> None:
        """A new session begins with so much work behind it; how long that took says nothing about this one."""
        self.done = done if math.isfinite(done) and done > 0.0 else 0.0
        self.ended = ""
        self.rebase()
        self._elapsed = dict.fromkeys(Doing, 0.0)
        # How long a validation takes may have changed with the machine; how often one comes has not.
        self._occasions = {kind: [] for kind in self._occasions}

    def rebase(self) -> None:
        """Batch or number of workers changed: older rates are of another job."""
        self._spans.clear()

    def observe(self, span: Span) -> None:
        """Take in one span; spans may come in any order and lengths."""
        self._elapsed[span.doing] += span.seconds
        if span.doing is Doing.TRAIN:
            if span.work > 0.0 and math.isfinite(span.work):
                self.done += span.work
                self._spans.append(span)
                del self._spans[:-_KEPT]
        elif span.doing in self._occasions:
            self._occasions[span.doing].append(span.seconds)
            self._at[span.doing].append(self.done)

    def end(self, outcome: str) -> None:
        """The training is over: nothing is left, however it ended."""
        self.ended = outcome

    @property
    def elapsed_s(self) -> dict[Doing, float]:
        """Seconds of this session by what they went into; pauses found among steps count as such."""
        found = dict(self._elapsed)
        rate = rate_of(self._spans)
        if rate is not None and rate.paused_s:
            moved = min(rate.paused_s, found[Doing.TRAIN])
            found[Doing.TRAIN] -= moved
            found[Doing.PAUSE] += moved
        return found

    @property
    def rate(self) -> Interval | Unknown:
        """Seconds per unit of work."""
        rate = rate_of(self._spans)
        return rate.seconds if rate is not None else Unknown("this session has not yet made two measured steps")

    def remaining(self) -> Interval | Unknown:
        """Seconds left as of the last span."""
        if self.ended:
            return Interval.exactly(0.0)
        if self.goal.total is None:
            return Unknown("nobody said when the training ends; its speed is known, its total is not")
        left = self.goal.total - self.done
        if left <= 0.0:
            return Interval.exactly(0.0)
        rate = self.rate
        if isinstance(rate, Unknown):
            return rate
        total = rate.scaled(left)
        for kind, every, prior in (
            (Doing.VALIDATION, self.goal.validate_every, self.goal.validation_s),
            (Doing.CHECKPOINT, self.goal.checkpoint_every, self.goal.checkpoint_s),
        ):
            total += self._occasions_left(kind, every, prior)
        if self.goal.may_stop_early:
            return Interval(0.0, total.middle, total.high)
        return total

    def _occasions_left(self, kind: Doing, every: float | None, prior_s: float | None) -> Interval:
        assert self.goal.total is not None
        every = every or _usual_gap(self._at[kind])
        seen = self._occasions[kind]
        each = median(seen[-9:]) if seen else prior_s
        if every is None or each is None:
            return Interval.exactly(0.0)
        # Occasions fall on multiples of ``every``: those between what is done and the total.
        reached = math.floor(self.done / every * (1 + 1e-9) + 1e-9)
        count = max(math.floor(self.goal.total / every * (1 + 1e-9) + 1e-9) - reached, 0)
        return Interval.around(each, _OCCASION_SD).scaled(count)


def _usual_gap(at: Sequence[float]) -> float | None:
    """Work between occasions; with a single one, the work before it."""
    gaps = [after - before for before, after in zip([0.0, *at], at, strict=False) if after > before]
    return median(gaps) if gaps else None
