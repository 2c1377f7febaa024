"""Fits loss curves of many jobs at once, recent losses counting more, and foretells how far each will fall.

    l(k) = 1/(α·k² + β·k + γ) + d        sub-linear convergence
    l(k) = μ^(k − b) + c                 linear convergence or faster

====== ==========================================================================================
k      work done, as a share of the work at the latest report
l      loss, scaled such that those fitted run from 1 down to 0
d, c   the floor; for a fixed one the rest is linear least squares, so floors are tried on a grid
α, β ≥ 0, μ ≤ 1, such that no curve rises
====== ==========================================================================================

A forecast is in units of the job's largest fall from one report to the next, which makes jobs comparable whatever
their loss measures.  Reference: Zhang et al., SLAQ, SoCC 2017, section 4.  All jobs go through the same few array
operations: a thousand separate searches, as ``models.convergence`` makes, would take seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from elastane.models.convergence import LEAST_POINTS
from elastane.models.speed import FloatArray

History = Sequence[tuple[float, float]]

_MOST_POINTS = 24
_COARSE = np.geomspace(1e-3, 4.0, 12)
_FINE, _REFINEMENTS = 5, 3
_ALL = (0, 1, 2)
_SUBSETS = (_ALL, (1, 2), (0, 2), (1,), (0,))
"""Which of α, β, γ are not 0; without γ the curve is 1/k or 1/k² itself."""
_RIDGE = 1e-13


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted curve of one job.  ``unit`` is the work at its latest report, ``step`` its largest fall, scaled like l.

    ``inverse`` holds (α, β, γ) or, for the other family, None; then ``exponent`` holds log(μ^(k − b)) = p + q·k.
    """

    unit: float
    step: float
    inverse: tuple[float, float, float] | None = None
    exponent: tuple[float, float] = (-math.inf, 0.0)

    def fall(self, work: FloatArray) -> FloatArray:
        """Returns how far the loss falls while so much more work is done, in units of its largest fall so far."""
        if self.step <= 0.0:
            return np.zeros_like(work)
        k = 1.0 + work / self.unit
        return np.maximum(self._above_floor(np.ones(1)) - self._above_floor(k), 0.0) / self.step

    def _above_floor(self, k: FloatArray) -> FloatArray:
        if self.inverse is None:
            start, slope = self.exponent
            return np.exp(start + slope * k)
        a, b, c = self.inverse
        return np.asarray(1.0 / (a * k * k + b * k + c))


FLAT = Curve(1.0, 0.0)
"""The curve of a job from which nothing is to be gained, such as one whose loss is no number any more."""


def curves_of(histories: Sequence[History], decay: float) -> list[Curve | None]:
    """Returns the curve of each history; None where there are too few losses to say.

    ``decay`` is the weight of a loss as a share of the next one's.
    """
    found: list[Curve | None] = [None] * len(histories)
    usable: list[int] = []
    parts: list[FloatArray] = []
    for i, history in enumerate(histories):
        if history and not math.isfinite(history[-1][1]):
            found[i] = FLAT
            continue
        points = np.array([point for point in history if math.isfinite(point[1]) and point[0] > 0.0])
        if len(points) >= LEAST_POINTS:
            usable.append(i)
            parts.append(points)
    if parts:
        for i, curve in zip(usable, _fitted(parts, decay), strict=True):
            found[i] = curve
    return found


def _fitted(histories: Sequence[FloatArray], decay: float) -> Iterator[Curve]:
    """Fits all histories at once: each is a row, filled up in front with points of weight 0."""
    shape = len(histories), _MOST_POINTS
    k, loss, weight = np.ones(shape), np.zeros(shape), np.zeros(shape)
    units, steps = [], []
    for row, points in enumerate(histories):
        recent = points[-_MOST_POINTS:]
        low, high = float(recent[:, 1].min()), float(recent[:, 1].max())
        scale, number = high - low, len(recent)
        units.append(float(recent[-1, 0]))
        steps.append(float(np.max(-np.diff(points[:, 1]))) / scale if scale > 0.0 else 0.0)
        k[row, -number:] = recent[:, 0] / units[-1]
        loss[row, -number:] = (recent[:, 1] - low) / (scale or 1.0)
        weight[row, -number:] = decay ** np.arange(number - 1, -1, -1)
    inverse, error = _searched(_inverse_fits, k, loss, weight)
    exponent, other = _searched(_exponential_fits, k, loss, weight)
    for row, (unit, step) in enumerate(zip(units, steps, strict=True)):
        if error[row] <= other[row]:
            a, b, c = inverse[row].tolist()
            yield Curve(unit, step, (a, b, c))
        else:
            start, slope = exponent[row].tolist()
            yield Curve(unit, step, None, (start, slope))


def _searched(
    fits: Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
    k: FloatArray,
    loss: FloatArray,
    weight: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Returns the best coefficients of each job and their error, over floors so far below its lowest loss."""
    rows = np.arange(len(k))
    depth = np.tile(_COARSE, (len(k), 1))
    for trial in range(_REFINEMENTS + 1):
        gap = loss[:, None, :] + depth[:, :, None]
        found, errors = fits(k, gap, np.broadcast_to(weight[:, None, :], gap.shape))
        best = np.argmin(errors, axis=1)
        if trial < _REFINEMENTS:
            nearer, deeper = np.maximum(best - 1, 0), np.minimum(best + 1, depth.shape[1] - 1)
            depth = np.geomspace(depth[rows, nearer], depth[rows, deeper], _FINE, axis=1)
    return found[rows, best], errors[rows, best]


def _inverse_fits(k: FloatArray, gap: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fits 1/gap by α·k² + β·k + γ; weighting with gap⁴ turns its errors into errors of the loss."""
    powers = np.stack([k * k, k, np.ones_like(k)], axis=-1)
    matrix = np.einsum("jgn,jna,jnb->jgab", weight * gap**4, powers, powers, optimize=True)
    vector = np.einsum("jgn,jna->jga", weight * gap**3, powers, optimize=True)
    best = np.full((*gap.shape[:2], 3), np.nan)  # γ alone is left to the other family
    least = np.full(gap.shape[:2], np.inf)
    for subset in _SUBSETS:
        part = matrix[:, :, subset][:, :, :, subset]
        ridge = _RIDGE * np.trace(part, axis1=2, axis2=3)[..., None, None] * np.eye(len(subset))
        found = np.zeros_like(best)
        found[..., list(subset)] = np.linalg.solve(part + ridge, vector[..., list(subset), None])[..., 0]
        below = np.einsum("jga,jna->jgn", found, powers, optimize=True)
        allowed = (found >= 0.0).all(axis=2) & (below > 0.0).all(axis=2)
        error = np.sum(weight * (gap - 1.0 / np.where(below > 0.0, below, np.inf)) ** 2, axis=2)
        better = allowed & (error < least)
        best[better], least[better] = found[better], error[better]
    return best, least


def _exponential_fits(k: FloatArray, gap: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fits log(gap) by p + q·k with q ≤ 0; weighting with gap² turns its errors into errors of the loss."""
    weights, logs, k = weight * gap**2, np.log(gap), np.broadcast_to(k[:, None, :], gap.shape)
    total = weights.sum(axis=2)
    mean_k, mean_log = (weights * k).sum(axis=2) / total, (weights * logs).sum(axis=2) / total
    from_mean = k - mean_k[..., None]
    spread = (weights * from_mean**2).sum(axis=2)
    slope = (weights * from_mean * logs).sum(axis=2) / np.maximum(spread, 1e-300)
    slope = np.minimum(slope, 0.0)
    start = mean_log - slope * mean_k
    error = np.sum(weight * (gap - np.exp(start[..., None] + slope[..., None] * k)) ** 2, axis=2)
    return np.stack([start, slope], axis=-1), error
