"""Computes curves over a run's time with a bounded number of points, for pages and terminals alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elastane.train.reports.events import Stepped
from elastane.train.reports.history import History
from elastane.train.reports.wording import finite

Measure = Callable[[Stepped], float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """Points in order of time, in seconds since the start; a value is None where it is unknown."""

    times_s: tuple[float, ...]
    values: tuple[float | None, ...]

    @property
    def known(self) -> list[float]:
        """The values that are known."""
        return [value for value in self.values if value is not None]


def measured(history: History, measure: Measure, limit: int) -> Series:
    """Returns a quantity of each window, averaged over equal intervals if there are more than ``limit``."""
    windows = history.of(Stepped)
    times = [history.since_start(window) for window in windows]
    return thinned(Series(tuple(times), tuple(finite(measure(window)) for window in windows)), limit)


def held(history: History, measure: Measure, limit: int) -> Series:
    """Returns a quantity that holds until it changes: beyond ``limit`` windows, its changes alone."""
    return thinned_steps(measured(history, measure, len(history.events)), limit)


def thinned_steps(series: Series, limit: int) -> Series:
    """Reduces a step curve to its changes; if these are more than ``limit``, to averages."""
    if len(series.values) <= limit:
        return series
    last = len(series.values) - 1
    kept = [i for i, value in enumerate(series.values) if i in (0, last) or value != series.values[i - 1]]
    return thinned(Series(tuple(series.times_s[i] for i in kept), tuple(series.values[i] for i in kept)), limit)


def thinned(series: Series, limit: int) -> Series:
    """Reduces a curve to at most ``limit`` points, each the mean of the known values in an equal interval."""
    if len(series.times_s) <= limit:
        return series
    first, last = min(series.times_s), max(series.times_s)
    width = (last - first) / limit or 1.0
    buckets: dict[int, list[tuple[float, float | None]]] = {}
    for time_s, value in zip(series.times_s, series.values, strict=True):
        buckets.setdefault(min(limit - 1, int((time_s - first) / width)), []).append((time_s, value))
    points = [_mean_point(buckets[key]) for key in sorted(buckets)]
    return Series(tuple(time_s for time_s, _ in points), tuple(value for _, value in points))


def mean(values: Sequence[float]) -> float:
    """Returns the mean, also of numbers whose sum would overflow, as a diverging loss has them."""
    return sum(value / len(values) for value in values)


def _mean_point(points: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    known = [value for _, value in points if value is not None]
    time_s = sum(time_s for time_s, _ in points) / len(points)
    return time_s, mean(known) if known else None
