"""Seconds per unit of work, from the training spans of one session: usual, recent, and how much they scatter.

The base is a median (one slow step says nothing), stalls are added as a mean (they come back), and two regimes are
kept: the latest steps and the last quarter of an hour or so, because contention comes and goes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from elastane.models.speed import FloatArray
from elastane.predict.eta.values import Span
from elastane.predict.interval import Interval

WARM_STEPS = 20
WARM_FACTOR = 1.25
RECENT_STEPS = 800
REGIME_S = 900.0
STALL = 4.0
PAUSE = 10.0
PAUSE_LEAST_S = 30.0
"""A gap is a pause if it is ten times the usual and long enough for a person to notice."""
_SLOWEST = 1e12
"""Seconds for a unit of work; a span that was slower did nothing worth counting."""
_WIDEST = 20.0
"""Of the interval, as a logarithm: beyond that nothing is known anyway."""
_BLOCKS = 10
_LEAST_SD = 0.02


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds per unit of work with its interval; ``paused_s`` was left out of it."""

    seconds: Interval
    paused_s: float


def rate_of(spans: Sequence[Span]) -> Rate | None:
    """The rate of a session's training spans; None if there are not yet two with work in them."""
    useful = [each for each in spans if 0.0 < each.seconds < _SLOWEST * each.work]
    useful = _without_warm_up(useful)
    if len(useful) < 2:
        return None
    seconds = np.array([each.seconds for each in useful])
    work = np.array([each.work for each in useful])
    rates = seconds / work
    usual = _median(rates, work)
    paused = (rates > PAUSE * usual) & (seconds > PAUSE_LEAST_S)
    paused_s = float((seconds - usual * work)[paused].sum())
    rates, work, seconds = rates[~paused], work[~paused], seconds[~paused]
    steps = np.array([each.steps for each in useful])[~paused]
    medians = _regimes(rates, work, seconds, steps)
    stalls = float(np.maximum(seconds - STALL * usual * work, 0.0).sum() / work.sum())
    middle = math.sqrt(medians[0] * medians[1]) + stalls
    spread = math.exp(min(1.645 * _scatter(seconds, work), _WIDEST))
    low, high = (min(medians) + stalls) / spread, (max(medians) + stalls) * spread
    return Rate(Interval(min(low, middle), middle, max(high, middle)), paused_s)


def _without_warm_up(spans: Sequence[Span]) -> list[Span]:
    """Without the first steps, as long as they are slower than what follows (compilation, cold caches)."""
    if len(spans) < 3:
        return list(spans)
    later = spans[len(spans) // 2 :]
    usual = _median(
        np.array([each.seconds / each.work for each in later]), np.array([each.work for each in later])
    )
    steps = first = 0
    while first < len(spans) - 2 and steps < WARM_STEPS:
        if spans[first].seconds / spans[first].work <= WARM_FACTOR * usual:
            break
        steps += spans[first].steps
        first += 1
    return list(spans[first:])


def _regimes(rates: FloatArray, work: FloatArray, seconds: FloatArray, steps: FloatArray) -> list[float]:
    """Medians of the latest steps, of the present regime, and of the session."""
    from_end = np.cumsum(seconds[::-1])[::-1]
    steps_from_end = np.cumsum(steps[::-1])[::-1]
    recent = steps_from_end <= max(min(RECENT_STEPS, 0.2 * steps.sum()), steps[-1], 5)
    recent[-1] = True
    regime = from_end <= max(REGIME_S, 3.0 * seconds[recent].sum())
    regime[-1] = True
    return [_median(rates[part], work[part]) for part in (recent, regime, np.ones(len(rates), bool))]


def _median(values: FloatArray, weights: FloatArray) -> float:
    """The weighted median, halfway between two if the weights fall so."""
    order = np.argsort(values, kind="stable")
    heights = np.cumsum(weights[order])
    half = heights[-1] / 2.0
    place = int(np.searchsorted(heights, half * (1 - 1e-12)))
    if place + 1 < len(order) and math.isclose(heights[place], half):
        return float(values[order[place : place + 2]].mean())
    return float(values[order[place]])


def _scatter(seconds: FloatArray, work: FloatArray) -> float:
    """Log standard deviation between blocks of the session; few spans are trusted less."""
    count = len(seconds)
    doubt = max(_LEAST_SD, 0.3 / math.sqrt(count))
    if count < 2 * _BLOCKS:
        return doubt
    parts = np.array_split(np.arange(count), _BLOCKS)
    logs = [math.log(seconds[part].sum() / work[part].sum()) for part in parts]
    middle = fmean(logs)
    return max(doubt, math.sqrt(fmean((each - middle) ** 2 for each in logs)))
