"""Estimates the seconds per unit of work, with an interval, from the training spans of one session.

The base is a median (one slow step says nothing), stalls are added as a mean (they come back), pauses are left out.
Contention comes and goes, so the session is cut into regimes of even speed.  The middle follows from the latest steps
and the present regime, the interval from every regime that lasted.  *Rate* here is the inverse: seconds per unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray
from elastane.predict.eta.regimes import cuts_of
from elastane.predict.eta.types import Span
from elastane.predict.interval import Z90, Interval

WARM_STEPS = 20
WARM_FACTOR = 1.25
RECENT_STEPS = 800
REGIME_S = 900.0
"""Seconds (or an epoch) after which a regime counts by itself."""
STALL = 1.5
PAUSE = 10.0
PAUSE_LEAST_S = 30.0
"""A gap is a pause if it is ``PAUSE`` times the usual time and at least this many seconds."""
_SLOWEST = 1e12
"""Seconds per unit of work above which a span does not count."""
_WIDEST = 20.0
"""Largest width of the interval to either side, as a logarithm."""
_BLOCKS = 10
_LEAST_SD = 0.03
_DISTURBED = 1.25
"""Least ratio of the interval's upper border to its middle: others may come to share machine, disk or network."""
_LASTED = 0.05
"""Fraction of the session's work from which on a regime counts for the interval."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds per unit of work, and the seconds of the training spans that were stalls and pauses instead."""

    seconds: Interval
    stalled_s: float
    paused_s: float


@dataclass(frozen=True, slots=True)
class _Pace:
    """Timed spans as columns, so that paces are computed in one vectorised step."""

    seconds: FloatArray
    work: FloatArray
    steps: FloatArray

    @property
    def rates(self) -> FloatArray:
        return self.seconds / self.work

    def part(self, which: NDArray[np.bool_] | slice) -> _Pace:
        return _Pace(self.seconds[which], self.work[which], self.steps[which])

    def median(self) -> float:
        """Returns the median of seconds per unit, weighted by work."""
        rates = self.rates
        order = np.argsort(rates, kind="stable")
        heights = np.cumsum(self.work[order])
        half = heights[-1] / 2.0
        place = int(np.searchsorted(heights, half * (1 - 1e-12)))
        if place + 1 < len(order) and math.isclose(heights[place], half):
            return float(rates[order[place : place + 2]].mean())
        return float(rates[order[place]])


def rate_of(spans: Sequence[Span], epoch: float | None = None, left: float = 0.0) -> Rate | None:
    """Estimates the rate of a session's training spans; None if there are not yet two with work in them.

    ``epoch`` is the work between validations, if that is known; ``left`` is the work for which the rate is asked.
    """
    useful = [each for each in spans if 0.0 < each.seconds < _SLOWEST * each.work]
    useful = _without_warm_up(useful)
    if len(useful) < 2:
        return None
    pace = _pace(useful)
    usual = pace.median()
    paused = (pace.rates > PAUSE * usual) & (pace.seconds > PAUSE_LEAST_S)
    paused_s = float((pace.seconds - usual * pace.work)[paused].sum())
    return _judged(pace.part(~paused), epoch, left, paused_s)


def _judged(pace: _Pace, epoch: float | None, left: float, paused_s: float) -> Rate:
    cuts = [0, *cuts_of(pace.seconds, pace.work), len(pace.work)]
    regimes = [pace.part(slice(a, b)) for a, b in pairwise(cuts)]
    usuals = np.concatenate([np.full(len(each.work), each.median()) for each in regimes])
    excess = np.where(pace.rates > STALL * usuals, pace.seconds - usuals * pace.work, 0.0)
    stalls = float(excess.sum() / pace.work.sum())
    present = _present(regimes, epoch)
    recent = _recent(present, epoch).median()
    lasting = [each.median() for each in regimes if each.work.sum() >= _LASTED * pace.work.sum()]
    ends = [recent, present.median(), *lasting]
    now = math.sqrt(recent * present.median())
    # A slow stretch lasts on about as long as it has lasted; then the usual speed comes back.
    share = min(float(present.work.sum()) / left, 1.0) if left > 0.0 else 1.0
    middle = share * now + (1.0 - share) * min(now, *ends) + stalls
    spread = math.exp(min(Z90 * _scatter(regimes), _WIDEST))
    low, high = (min(ends) + stalls) / spread, (max(ends) + stalls) * spread
    return Rate(
        Interval(min(low, middle), middle, max(high, _DISTURBED * middle)), float(excess.sum()), paused_s
    )


def _pace(spans: Sequence[Span]) -> _Pace:
    return _Pace(
        np.array([each.seconds for each in spans]),
        np.array([each.work for each in spans]),
        np.array([float(each.steps) for each in spans]),
    )


def _without_warm_up(spans: Sequence[Span]) -> list[Span]:
    """Drops the first steps as long as they are slower than what follows (compilation, cold caches)."""
    if len(spans) < 3:
        return list(spans)
    usual = _pace(spans[len(spans) // 2 :]).median()
    steps = first = 0
    while first < len(spans) - 2 and steps < WARM_STEPS:
        if spans[first].seconds / spans[first].work <= WARM_FACTOR * usual:
            break
        steps += spans[first].steps
        first += 1
    return list(spans[first:])


def _present(regimes: Sequence[_Pace], epoch: float | None) -> _Pace:
    """Returns the latest regime, together with those before it while it is too young to count by itself."""
    first = len(regimes) - 1
    while first > 0 and _young(_joined(regimes[first:]), epoch):
        first -= 1
    return _joined(regimes[first:])


def _young(pace: _Pace, epoch: float | None) -> bool:
    # Cuts fall between blocks of spans, so an epoch may be found a little short.
    whole = epoch is not None and float(pace.work.sum()) >= 0.9 * epoch
    return not whole and float(pace.seconds.sum()) < REGIME_S


def _joined(parts: Sequence[_Pace]) -> _Pace:
    return _Pace(
        np.concatenate([each.seconds for each in parts]),
        np.concatenate([each.work for each in parts]),
        np.concatenate([each.steps for each in parts]),
    )


def _recent(pace: _Pace, epoch: float | None) -> _Pace:
    """Returns the latest steps: a fifth of the regime, at most an epoch and 800 steps, at least five."""
    steps, work = (np.cumsum(each[::-1])[::-1] for each in (pace.steps, pace.work))
    chosen = steps <= max(min(RECENT_STEPS, 0.2 * pace.steps.sum()), pace.steps[-1], 5)
    if epoch is not None:
        chosen &= work <= max(epoch, pace.work[-1])
    chosen[-1] = True
    return pace.part(chosen)


def _scatter(regimes: Sequence[_Pace]) -> float:
    """Returns the log standard deviation between blocks of a regime; larger for few spans."""
    count = sum(len(each.work) for each in regimes)
    doubt = max(_LEAST_SD, 0.3 / math.sqrt(count))
    variances: list[float] = []
    for each in regimes:
        if len(each.work) < 2 * _BLOCKS:
            continue
        firsts = np.linspace(0, len(each.work), _BLOCKS, endpoint=False).astype(int)
        logs = np.log(np.add.reduceat(each.seconds, firsts) / np.add.reduceat(each.work, firsts))
        variances.append(float(logs.var()))
    return max(doubt, math.sqrt(fmean(variances))) if variances else doubt
