"""Extrapolates a noisy measure to a set of possible futures: smooth curves fitted to it, each with its residual noise.

Three families, y(k) = c + a·φ(k) with a ≥ 0, each fitted to the whole curve and to what follows its last cliff, evenly
and with more weight on the latest points.  No single fit is trusted: together they are a set of futures.

=========== ==================== ==========================================================
family      φ(k)                 seen as
=========== ==================== ==========================================================
inverse     1 / (k + θ)          Optimus (Peng et al., EuroSys 2018)
power       k^−θ                 learning curves in general
exponential exp(−θ·k)            plain relaxation to a floor
=========== ==================== ==========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from elastane.models.convergence import last_cliff
from elastane.models.speed import FloatArray

LEAST_POINTS = 4
_LEAST_FOR_CLIFF = 9
_DRAWS = 16
"""Futures drawn from each fitted curve."""
_PREFERENCE = 1.0
"""Weight of a curve: its mean square error to minus this power."""
_LEAST_ERROR = 1e-6
_MOST_TIED = 0.95

_FAMILIES: tuple[Callable[[FloatArray, float], FloatArray], ...] = (
    lambda k, span: 1.0 / (k + np.geomspace(0.5, 20.0 * span, 24)),
    lambda k, _: k ** -np.geomspace(0.1, 2.5, 16),
    lambda k, span: np.exp(-k * np.geomspace(0.3 / span, 1.5, 24)),
)


def futures(y: FloatArray, until: int, bounded: bool) -> tuple[FloatArray, FloatArray]:
    """Returns possible continuations of ``y`` up to point ``until``, one per row, and their weights.

    Smaller values of y are better; ``bounded``: y cannot fall below 0.  Equal curves have equal draws.
    """
    ahead, draw = until - len(y), np.random.default_rng(0)
    curves, noise, tied, errors = [], [], [], []
    for fitted, start in _fits(y, until, bounded):
        left_over = y[start:] - fitted[: len(y) - start]
        latest = left_over[-max(len(left_over) // 2, LEAST_POINTS) :]
        curves.append(np.tile(fitted[len(y) - start :], (_DRAWS, 1)))
        noise.append(np.column_stack([np.full(_DRAWS, left_over[-1]), draw.choice(latest, (_DRAWS, ahead))]))
        tied.append(np.full(_DRAWS, _correlation(left_over)))
        errors.append(np.full(_DRAWS, np.mean(latest**2)))
    weights = (np.concatenate(errors) + _LEAST_ERROR * float(np.ptp(y)) ** 2) ** -_PREFERENCE
    return np.concatenate(curves) + _tied(np.concatenate(noise), np.concatenate(tied)), weights / weights.sum()


def _correlation(left_over: FloatArray) -> float:
    """Returns the correlation of neighbouring residuals: a curve that does not fit is off for long, not by chance."""
    squares = float(np.sum(left_over**2))
    found = float(np.sum(left_over[1:] * left_over[:-1])) / squares if squares > 0.0 else 0.0
    return min(max(found, 0.0), _MOST_TIED)


def _tied(noise: FloatArray, correlation: FloatArray) -> FloatArray:
    """Makes noise autocorrelated, continuing from its first column, the last residual seen."""
    fresh = np.sqrt(1.0 - correlation**2)
    for place in range(1, noise.shape[1]):
        noise[:, place] = correlation * noise[:, place - 1] + fresh * noise[:, place]
    return noise[:, 1:]


def _fits(y: FloatArray, until: int, bounded: bool) -> Iterator[tuple[FloatArray, int]]:
    """Yields fitted curves over seen and future points, each with the index where it begins."""
    for start in _starts(y):
        seen = y[start:]
        k = np.arange(1.0, until - start + 1.0)[:, None]
        age = np.arange(len(seen) - 1.0, -1.0, -1.0)
        for family in _FAMILIES:
            basis = family(k, float(until))
            for weights in (np.ones(len(seen)), 0.5 ** (3.0 * age / len(seen))):
                yield _fitted(basis, seen, weights / weights.sum(), bounded), start


def _starts(y: FloatArray) -> list[int]:
    """Returns the indices where fits begin: the first point, and the one after the last learning-rate drop."""
    spread = float(np.ptp(y))
    if len(y) < _LEAST_FOR_CLIFF or spread <= 0.0:
        return [0]
    cliff = last_cliff((y - y.min()) / spread)
    return [0, cliff] if 0 < cliff <= len(y) - LEAST_POINTS else [0]


def _fitted(basis: FloatArray, y: FloatArray, weights: FloatArray, bounded: bool) -> FloatArray:
    """Fits the best c + a·φ among the columns of ``basis``, evaluated on all its rows; the first are those of ``y``."""
    seen = basis[: len(y)]
    middle, level = weights @ seen, float(weights @ y)
    off = seen - middle
    amount = np.maximum((weights * (y - level)) @ off / np.maximum(weights @ off**2, 1e-300), 0.0)
    floor = level - amount * middle
    if bounded:
        alone = np.maximum((weights * y) @ seen / np.maximum(weights @ seen**2, 1e-300), 0.0)
        amount, floor = np.where(floor < 0.0, alone, amount), np.maximum(floor, 0.0)
    misfits = weights @ (y[:, None] - floor - amount * seen) ** 2
    best = int(np.argmin(misfits))
    return np.asarray(floor[best] + amount[best] * basis[:, best], np.float64)
