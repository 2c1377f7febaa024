"""Forecasts when a training with early stopping will stop, from its validation curve and its epoch budget.

A curve alone is a bad predictor: real ones wander, and drops of the learning rate make cliffs that no smooth family
foresees.  The budget alone is only an upper bound.  So the end T is a distribution over the validations ahead,

    P(T) ∝ P(T | budget) · (ε + P(T | curve))

``P(T | budget)`` says how budgets are usually set (``Belief``): up to ``slack`` times of what is needed, rarely more,
and in a share ``never`` of all runs the end is never reached.  ``P(T | curve)`` comes from the futures of the curve,
blurred by the factor by which the same futures were wrong about this very run so far (``back_test``).  A curve that
shows nothing (not finite, rising, flat, pure oscillation) does not count at all: the budget alone decides.

The constants were chosen on generated curves (``benchmarks.predict.generated``).  ``slack`` is an assumption, made when
it was known where the real curves that measure this end in their budgets; docs/prediction.md says what others give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.models.convergence import Verdict
from elastane.models.speed import FloatArray
from elastane.predict.eta.curves import LEAST_POINTS, futures
from elastane.predict.eta.stop_rule import EarlyStop
from elastane.predict.interval import Interval

_BEYOND_SLACK = 0.25
"""Weight of an end before budget / slack, where a likely one has 1."""
_BLUR, _BLUR_COUNT = 0.3, 2
"""Prior log error of a forecast, and its weight in back-tests."""
_CUTS = (0.4, 0.55, 0.7, 0.85)
_REACH = 3
"""Horizon of a back-test, in multiples of the distance from its cut to the present."""
_TRUSTED_BLUR = 0.5
_TAIL = 3


@dataclass(frozen=True, slots=True)
class Belief:
    """Prior assumptions on how budgets are set; ``doubt`` (ε) is the distrust of curves: with 1 they do not count."""

    slack: float = 2.0
    never: float = 0.1
    doubt: float = 0.1


@dataclass(frozen=True, slots=True)
class StopForecast:
    """The number of validations after which the training ends, with verdict and reason."""

    ends: Interval
    verdict: Verdict
    reason: str


_BELIEF = Belief()


def forecast_stop(
    rule: EarlyStop, values: Sequence[float], budget: int, belief: Belief = _BELIEF
) -> StopForecast:
    """Forecasts the end of a run of at most ``budget`` validations, whose first values these are."""
    y = rule.losses(values)
    if len(y) >= budget:
        return StopForecast(Interval.exactly(float(budget)), Verdict.CANNOT_TELL, "The budget is spent.")
    objection = _objection(rule, y)
    if objection is not None:
        return StopForecast(Interval.exactly(float(budget)), *objection)
    y, seen = _without_holes(y), len(y)
    ends = np.arange(seen + 1.0, budget + 1.0)
    weights, never = (
        _by_budget(ends, budget, belief) if rule.target is not None else _by_patience(ends, rule.least(y))
    )
    verdict = Verdict.TOO_SHORT, f"Only {seen} validations so far; the budget has to do."
    if seen >= LEAST_POINTS:
        likely, likely_never, blur = _by_curve(rule, y, budget, belief.doubt)
        weights, never = weights * likely, never * likely_never
        verdict = _verdict(blur, likely_never)
    low, middle, high = _quantiles(np.append(ends, budget), np.append(weights, never))
    return StopForecast(Interval(low, middle, high), *verdict)


def back_test(y: FloatArray, bounded: bool) -> list[float]:
    """Returns log errors of the time to the best value so far, as forecast from earlier points of this run."""
    errors, best = [], int(np.argmin(y)) + 1
    for cut in sorted({int(part * len(y)) for part in _CUTS}):
        if cut < LEAST_POINTS or best <= cut:
            continue
        until = cut + _REACH * (len(y) - cut)
        rows, weights = futures(y[:cut], until, bounded)
        reached = rows <= y[best - 1]
        first = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, float(until - cut))
        order = np.argsort(first, kind="stable")
        errors.append(math.log(_quantiles(first[order], weights[order])[1] / (best - cut)))
    return errors


def _without_holes(y: FloatArray) -> FloatArray:
    known, places = np.isfinite(y), np.arange(len(y))
    return y if known.all() or not known.any() else np.interp(places, places[known], y[known])


def _by_budget(ends: FloatArray, budget: int, belief: Belief) -> tuple[FloatArray, float]:
    """Returns the prior weight of every end, and that of running through the budget without one."""
    every = np.arange(1.0, budget + 1.0)
    weights = np.where(every >= budget / belief.slack, 1.0, _BEYOND_SLACK) / every
    return (1.0 - belief.never) * weights[-len(ends) :] / weights.sum(), belief.never


def _by_patience(ends: FloatArray, least: int) -> tuple[FloatArray, float]:
    """Returns the same weights for a rule of patience: never with 1/2, else soon as likely as late."""
    left = np.arange(1.0, len(ends) + 1.0)
    weights = np.where(left >= least, 1.0 / left, 0.0)
    return 0.5 * weights / max(float(weights.sum()), 1e-300), 0.5


def _by_curve(rule: EarlyStop, y: FloatArray, budget: int, doubt: float) -> tuple[FloatArray, float, float]:
    """Returns the likelihood of every end and of none, from the futures, and the log error they are blurred by."""
    bounded = not rule.rising and float(y.min()) >= 0.0
    rows, trust = futures(y, budget, bounded)
    stops = rule.ends(y, rows)
    errors = back_test(y, bounded)
    blur = math.sqrt((_BLUR_COUNT * _BLUR**2 + sum(e * e for e in errors)) / (_BLUR_COUNT + len(errors)))
    left = np.log(np.arange(1.0, budget - len(y) + 1.0))
    reached = np.isfinite(stops)
    share = float(trust[reached].sum())
    # A density over the logarithm of what is left, as a multiple of the even one.
    even = max(float(left[-1]), 1.0)
    near = _bell((left[:, None] - np.log(stops[reached])) / blur) @ trust[reached] / blur * even
    # A target may still be reached by a cliff that no future knows of; patience knows no cliffs.
    late = _bell((left - left[-1]) / blur) / _bell(np.zeros(1)) if rule.target is not None else 0.0
    return doubt + (1 - doubt) * (near + (1 - share) * late), doubt + (1 - doubt) * (1 - share), blur


def _bell(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi), np.float64)


def _objection(rule: EarlyStop, y: FloatArray) -> tuple[Verdict, str] | None:
    """Says why a curve does not count; None if it does."""
    if len(y) and not np.isfinite(y[-_TAIL:]).all():
        return Verdict.NOT_CONVERGING, "The latest values are not finite numbers."
    y = y[np.isfinite(y)]
    if len(y) < LEAST_POINTS or rule.patience is not None:
        return None  # patience ends the worst of curves
    noise = _noise(y)
    third = max(len(y) // 3, 2)
    first, before, last = y[:third].mean(), y[-2 * third : -third].mean(), y[-third:].mean()
    sure = 3.0 * noise * math.sqrt(2.0 / third)
    if last - before > max(sure, 0.02 * float(np.ptp(y))):
        return Verdict.NOT_CONVERGING, "Lately it became worse, not better."
    if first - min(last, before) <= max(sure, 1e-9 * float(np.abs(y).max())):
        return Verdict.CANNOT_TELL, "It has not become better by more than its noise."
    return None


def _verdict(blur: float, never: float) -> tuple[Verdict, str]:
    off = f"earlier forecasts of this run were off by a factor of {math.exp(blur):.1f}"
    if never > 0.5:
        return Verdict.CANNOT_TELL, f"Most ways the curve may go on do not end within the budget; {off}."
    if blur > _TRUSTED_BLUR:
        return Verdict.CANNOT_TELL, f"The curve is not to be trusted: {off}."
    return Verdict.TRUSTED, f"The curve can be extrapolated: {off}."


def _noise(y: FloatArray) -> float:
    """Returns the standard deviation of the noise, from second differences, which a smooth curve hardly has."""
    return 1.4826 * float(np.median(np.abs(np.diff(y, 2)))) / math.sqrt(6.0)


def _quantiles(ends: FloatArray, weights: FloatArray) -> tuple[float, float, float]:
    heights = np.cumsum(weights) / weights.sum()
    low, middle, high = (
        float(ends[min(int(np.searchsorted(heights, part)), len(ends) - 1)]) for part in (0.05, 0.5, 0.95)
    )
    return low, middle, high
