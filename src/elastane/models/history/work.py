"""Estimates a job's remaining work from the totals of similar jobs, given the work it has already done.

Each neighbour's total x stands for a log-normal of mean x and width h.  Given that more than d was needed,

    E[X − d | X > d] = Σ w E[X; X > d] / Σ w P(X > d) − d

so that the estimate for a job that has outrun its shorter neighbours rests on the longer ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.models.estimate import Estimate, Provenance
from elastane.models.speed import FloatArray

_ONE_NEIGHBOUR = 0.5  # width when a single job is remembered
_LEAST, _WIDEST = 0.02, 1.0
_MOST_KERNELS = 16
_OUTRUN = 1e-9  # a probability so small that the job has outrun all its neighbours


@dataclass(frozen=True, slots=True)
class WorkPrior:
    """Totals of similar jobs (some sixteen at most, near ones joined), their weights, and the width h."""

    totals: tuple[float, ...]
    weights: tuple[float, ...]
    width: float
    count: int

    @classmethod
    def of(cls, totals: Sequence[float], weights: Sequence[float]) -> WorkPrior:
        """Makes the distribution from the totals of neighbours and their similarities."""
        values, mass = np.log(np.array(totals)), np.array(weights)
        mass = mass / mass.sum()
        effective = 1.0 / float((mass**2).sum())
        width = math.hypot(_ONE_NEIGHBOUR / math.sqrt(effective), _typical_gap(values))
        kernels = _kernels(values, mass)
        return cls(
            tuple(math.exp(value) for value, _ in kernels),
            tuple(w for _, w in kernels),
            min(max(width, _LEAST), _WIDEST),
            len(totals),
        )

    def total(self) -> Estimate:
        """Estimates the whole work of a job that has not begun."""
        return self.remaining(0.0)

    def remaining(self, done: float) -> Estimate:
        """Estimates the work left after ``done``, given that the job has not finished with it."""
        h = self.width
        mass = first = second = 0.0
        for total, weight in zip(self.totals, self.weights, strict=True):
            # ln X ~ N(ln total − h²/2, h): its mean is the total.
            z = (math.log(done) - math.log(total) + h * h / 2.0) / h if done > 0.0 else -math.inf
            mass += weight * _above(z)
            first += weight * total * _above(z - h)
            second += weight * total * total * math.exp(h * h) * _above(z - 2.0 * h)
        if mass < _OUTRUN:
            return self._outrun(done)
        mean, square = first / mass, second / mass
        std = math.sqrt(max(square - mean * mean, 0.0))
        return Estimate(max(mean - done, 0.0), std, self.count, Provenance.HISTORY)

    def _outrun(self, done: float) -> Estimate:
        """Estimates work left far beyond all totals: the longest one's tail has mean excess d·h/z, and as much std."""
        z = (math.log(done) - math.log(max(self.totals)) + self.width**2 / 2.0) / self.width
        mean = done * self.width / max(z, 1.0)
        return Estimate(mean, mean, self.count, Provenance.HISTORY)


def _above(z: float) -> float:
    """Returns P(standard normal > z)."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _typical_gap(values: FloatArray) -> float:
    """Returns the median distance to the √n-th nearest total (in logarithms): 0 where all are equal."""
    near = np.sort(np.abs(values[:, None] - values[None, :]), axis=1)
    return float(np.median(near[:, min(math.isqrt(len(values)), len(values) - 1)]))


def _kernels(values: FloatArray, mass: FloatArray) -> list[tuple[float, float]]:
    """Returns sorted logarithms with their weights; near ones are joined, so that few are left."""
    order = np.argsort(values, kind="stable")
    joined: list[tuple[float, float]] = []
    step = max(float(values.max() - values.min()) / _MOST_KERNELS, 1e-6)
    start = -math.inf
    for value, weight in zip(values[order].tolist(), mass[order].tolist(), strict=True):
        if value - start > step:
            joined.append((value, weight))
            start = value
        else:
            old, sum_ = joined[-1]
            joined[-1] = ((old * sum_ + value * weight) / (sum_ + weight), sum_ + weight)
    return joined
