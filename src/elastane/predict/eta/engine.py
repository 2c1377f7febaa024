"""Computes the time left of a running training: remaining counts times seconds each, per kind of activity.

    remaining = work left · seconds per work + validations left · seconds each + checkpoints left · seconds each

Counts come from the goal, rates from this session alone.  Dividing this session's time by the steps of all sessions
is the most frequent mistake of progress bars; here a resume simply begins a new session.  Where a training may stop
early, the work left is itself a forecast (``stopping``).  The engine is a pure state machine: no clock, no file.
"""

from __future__ import annotations

import math
from dataclasses import replace

from elastane.predict.eta.periodic_events import Occasions, gap_between
from elastane.predict.eta.rates import PAUSE, PAUSE_LEAST_S, Rate, rate_of
from elastane.predict.eta.stopping import StopForecast, forecast_stop
from elastane.predict.eta.types import Doing, Goal, Span
from elastane.predict.interval import Interval, Unknown

_KEPT = 20_000
"""Training spans that are kept; with windows of a second that is hours."""
_ADOPTED = 20
"""Steps after which what was measured replaces what was predicted: the first ones are slow."""


class EtaEngine:
    """Takes in spans of one training and predicts the seconds that are left."""

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.done = 0.0
        self.ended = ""
        self.values: dict[float, float] = {}
        """Values of the measure that may end the training, by the work done at each validation."""
        self.occasions = {Doing.VALIDATION: Occasions(), Doing.CHECKPOINT: Occasions()}
        self._spans: list[Span] = []
        self._stalled_s = 0.0
        self._elapsed = dict.fromkeys(Doing, 0.0)
        self._clock_s: float | None = None
        self._known: tuple[float | None, Rate | None] | None = None
        self._stop: tuple[tuple[object, ...], StopForecast] | None = None

    def resume(self, done: float) -> None:
        """Begins a new session after so much work; the speed of earlier sessions is forgotten."""
        self.go_to(done)
        self.ended = ""
        self.rebase()
        self._elapsed = dict.fromkeys(Doing, 0.0)
        self._clock_s = None
        for each in self.occasions.values():
            each.resume()

    def rebase(self, goal: Goal | None = None) -> None:
        """Drops measured rates, after a change of batch or workers; the goal may change with it."""
        self._spans.clear()
        self._stalled_s, self._known = 0.0, None
        self.goal = goal or self.goal

    def observe(self, span: Span) -> None:
        """Takes in one span; the gap between it and the one before counts as a stall or a pause."""
        self._gap(span)
        self._elapsed[span.doing] += span.seconds
        if span.doing is Doing.TRAIN and span.work > 0.0 and math.isfinite(self.done + span.work):
            self.done += span.work
            self._spans.append(span)
            del self._spans[:-_KEPT]
            self._known = None
        elif span.doing in self.occasions:
            self.occasions[span.doing].add(self.done, span.seconds)
        elif span.doing is Doing.STALL:
            self._stalled_s += span.seconds

    def measured(self, value: float) -> None:
        """Takes in the value that a validation found for the measure that may end the training."""
        self.values[self.done] = value

    def go_to(self, done: float) -> None:
        """Sets the work done, after a restore for instance; values of validations beyond it are dropped."""
        self.done = done if math.isfinite(done) and done > 0.0 else 0.0
        for at in [at for at in self.values if at > self.done]:
            del self.values[at]

    def end(self, outcome: str) -> None:
        """Marks the training as over: nothing is left, however it ended."""
        self.ended = outcome

    @property
    def elapsed_s(self) -> dict[Doing, float]:
        """The seconds of this session by activity; stalls and pauses found among steps count as such."""
        found, rate = dict(self._elapsed), self._rate()
        if rate is not None:
            for kind, seconds in ((Doing.PAUSE, rate.paused_s), (Doing.STALL, rate.stalled_s)):
                moved = min(seconds, found[Doing.TRAIN])
                found[Doing.TRAIN] -= moved
                found[kind] += moved
        return found

    @property
    def steps(self) -> int:
        """The number of steps measured in this session since the last change."""
        return sum(each.steps for each in self._spans)

    @property
    def adopted(self) -> bool:
        """Whether the rate is a measured one, and not the prediction from before the run."""
        return self._rate() is not None and (self.goal.work_s is None or self.steps >= _ADOPTED)

    @property
    def rate(self) -> Interval | Unknown:
        """Seconds per unit of work, stalls included; as predicted before the run until enough steps were measured."""
        if self.goal.work_s is not None and not self.adopted:
            return self.goal.work_s
        rate = self._rate()
        if rate is None:
            return Unknown("this session has not yet made two measured steps")
        stalls = self._stalled_s / sum(each.work for each in self._spans)
        return rate.seconds + Interval.exactly(stalls if math.isfinite(stalls) else 0.0)

    @property
    def step_s(self) -> Interval | Unknown:
        """Seconds per step, whatever the work is counted in."""
        rate = self.rate
        return rate if isinstance(rate, Unknown) else rate.scaled(sum(s.work for s in self._spans) / self.steps)

    @property
    def stop(self) -> StopForecast | None:
        """The forecast of an early stop, in validations; None without a rule, a budget or a validation."""
        rule, total, every = self.goal.stop, self.goal.total, self._measured_every
        if rule is None or total is None or every is None:
            return None
        values = tuple(self.values[at] for at in sorted(self.values))
        key = rule, values, self._validations(total, every)
        if self._stop is None or self._stop[0] != key:
            self._stop = key, forecast_stop(*key)
        return self._stop[1]

    def remaining(self) -> Interval | Unknown:
        """Returns the seconds left as of the last span, or why they are unknown."""
        if self.ended:
            return Interval.exactly(0.0)
        if self.goal.total is None:
            return Unknown("nobody said when the training ends; its speed is known, its total is not")
        if self.goal.total <= self.done:
            return Interval.exactly(0.0)
        rate = self.rate
        if isinstance(rate, Unknown):
            return rate
        ends = self._ends(self.goal.total)
        low, middle, high = (self._until(end, rate) for end in (ends.low, ends.middle, ends.high))
        found = Interval(low.low, middle.middle, high.high)
        if self.goal.may_stop_early and self.goal.stop is None:
            return replace(found, low=0.0)
        return found if math.isfinite(found.high) else Unknown("the rates are out of all proportion")

    def _ends(self, total: float) -> Interval:
        """Returns the work after which the training ends, never beyond its budget."""
        found, every = self.stop, self._measured_every
        if found is None or every is None:
            # A rule that was never tried yet can end it at any time.
            return Interval(self.done, total, total) if self.goal.stop else Interval.exactly(total)
        ends = found.ends
        low, middle, high = (self._work_at(end, total, every) for end in (ends.low, ends.middle, ends.high))
        return Interval(low, middle, high)

    def _work_at(self, validation: float, total: float, every: float) -> float:
        """Returns the work done at a future validation; one beyond the last means the whole budget."""
        if validation >= self._validations(total, every):
            return total
        ahead = (validation - len(self.values)) * every
        return min(max(max(self.values) + ahead, self.done), total)

    def _validations(self, total: float, every: float) -> int:
        """Returns the number of validations of the whole run: those seen, and those that fit into the rest."""
        return len(self.values) + max(math.floor((total - max(self.values)) / every * (1 + 1e-9)), 0)

    def _until(self, end: float, rate: Interval) -> Interval:
        found = rate.scaled(max(end - self.done, 0.0))
        for kind, every, prior in (
            (Doing.VALIDATION, self.goal.validate_every, self.goal.validation_s),
            (Doing.CHECKPOINT, self.goal.checkpoint_every, self.goal.checkpoint_s),
        ):
            found += self.occasions[kind].left(self.done, end, every, prior)
        return found

    @property
    def _measured_every(self) -> float | None:
        return (self.goal.validate_every or gap_between(sorted(self.values))) if self.values else None

    def _rate(self) -> Rate | None:
        epoch = self.goal.validate_every or self.occasions[Doing.VALIDATION].gap
        if self._known is None or self._known[0] != epoch:
            left = 0.0 if self.goal.total is None else max(self.goal.total - self.done, 0.0)
            self._known = epoch, rate_of(self._spans, epoch, left)
        return self._known[1]

    def _gap(self, span: Span) -> None:
        """Counts the unreported time between two spans as a stall, or as a pause if it was long."""
        if not (math.isfinite(span.began_s) and math.isfinite(span.ended_s)):
            return
        gap = 0.0 if self._clock_s is None else span.began_s - self._clock_s
        self._clock_s = max(span.began_s, span.ended_s)
        if 0.0 < gap < math.inf:
            usual = self._spans[-1].seconds if self._spans else span.seconds
            if gap > PAUSE_LEAST_S and gap > PAUSE * usual:
                self._elapsed[Doing.PAUSE] += gap
            else:
                self._elapsed[Doing.STALL] += gap
                self._stalled_s += gap
