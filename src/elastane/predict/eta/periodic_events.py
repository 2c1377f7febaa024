"""Predicts the time of periodic events such as validations: how often, how long each, how many are still to come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from elastane.predict.interval import Interval

_LATEST = 9
_SD = 0.1


class Occasions:
    """The events of one kind (validations, or checkpoints) of a training so far."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._at: list[float] = []

    def add(self, done: float, seconds: float) -> None:
        """Adds an event that took so many seconds after so much work."""
        self._seconds.append(seconds)
        self._at.append(done)

    def resume(self) -> None:
        """Forgets durations, which may change with the machine at a resume; the frequency is kept."""
        self._seconds.clear()

    @property
    def gap(self) -> float | None:
        """The usual work between two events; None before the first."""
        return gap_between(self._at)

    def left(self, done: float, end: float, every: float | None, prior_s: float | None) -> Interval:
        """Predicts the seconds of events to come, at multiples of ``every`` (None: of the usual gap)."""
        every = every or self.gap
        latest = self._seconds[-_LATEST:] or ([] if prior_s is None else [prior_s])
        if every is None or not latest:
            return Interval.exactly(0.0)
        reached = math.floor(done / every * (1 + 1e-9) + 1e-9)
        count = max(math.floor(end / every * (1 + 1e-9) + 1e-9) - reached, 0)
        each = Interval.around(median(latest), _SD)
        return Interval(min(each.low, *latest), each.middle, max(each.high, *latest)).scaled(count)


def gap_between(places: Sequence[float]) -> float | None:
    """Returns the median gap between places, 0 counting as the first; None without any."""
    gaps = [after - before for before, after in zip([0.0, *places], places, strict=False) if after > before]
    return median(gaps) if gaps else None
