"""How much work is left of a job, from how much others had: a smoothed distribution, cut at what is already done.

Each neighbour's total x stands for a log-normal of mean x and width h.  Given that more than d was needed,

    E[X − d | X > d] = Σ w E[X; X > d] / Σ w P(X > d) − d

so that a job that has outrun the shorter of its neighbours is believed to resemble the longer ones.
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
_OUTRUN = 1e-9  # a chance so small that the job has outrun everything remembered


@dataclass(frozen=True, slots=True)
class WorkPrior:
    """Totals of like jobs (at most a dozen or so, equal ones together), their weights, and the width h."""

    totals: tuple[float, ...]
    weights: tuple[float, ...]
    width: float
    count: int

    @classmethod
    def of(cls, totals: Sequence[float], weights: Sequence[float]) -> WorkPrior:
        """From the totals of neighbours."""
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
        """The whole work of a job not yet begun."""
        return self.remaining(0.0)

    def remaining(self, done: float) -> Estimate:
        """What is left after ``done``, which proved not to be enough."""
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
        """Far beyond all: the tail of the longest, whose mean excess is d·h/z, and whose spread is as much again."""
        z = (math.log(done) - math.log(max(self.totals)) + self.width**2 / 2.0) / self.width
        mean = done * self.width / max(z, 1.0)
        return Estimate(mean, mean, self.count, Provenance.HISTORY)


def _above(z: float) -> float:
    """P(standard normal > z)."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _typical_gap(values: FloatArray) -> float:
    """How far away, typically, the √n-th nearest is: wide where totals are scattered, nothing where they are equal."""
    near = np.sort(np.abs(values[:, None] - values[None, :]), axis=1)
    return float(np.median(near[:, min(math.isqrt(len(values)), len(values) - 1)]))


def _kernels(values: FloatArray, mass: FloatArray) -> list[tuple[float, float]]:
    """Logarithms in order with their weights, neighbours in value joined until few are left."""
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
