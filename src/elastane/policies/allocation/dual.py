"""Finds market-clearing GPU prices for several accelerator types: the Lagrangian dual of the count problem.

At given prices each job takes the type and size with the largest surplus (value minus price).  The dual,
Σ_j surplus_j + Σ_t price_t · GPUs_t, is convex in the prices and never below the value of the best division; it is
minimised on a grid of prices, for all jobs at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.allocation.solver import Steps

_GRID = 96
_MOST_SWEEPS = 12


@dataclass(frozen=True)
class Demand:
    """Demand for one accelerator type: GPUs that each job takes at each price, and its surplus; both (job, price)."""

    sizes: IntArray
    surplus: FloatArray
    first: FloatArray
    """The price below which a job would take any."""


def price_grid(steps: Sequence[Steps]) -> FloatArray:
    """Returns the prices to try, the same for all types: quantiles of those at which some job's demand changes."""
    slopes = np.concatenate([each.gains / each.sizes for each in steps])
    found = np.unique(np.quantile(slopes, np.linspace(0.0, 1.0, _GRID))) if len(slopes) else slopes
    return np.concatenate([[0.0], found])


def demand_of(steps: Steps, jobs: int, prices: FloatArray) -> Demand:
    """Returns the demand of ``jobs`` jobs whose concave hulls have these steps."""
    slopes = steps.gains / steps.sizes
    column = np.searchsorted(prices, slopes) - 1  # the highest price below the slope
    sizes = np.zeros((jobs, len(prices)), dtype=np.int64)
    gain = np.zeros((jobs, len(prices)))
    np.add.at(sizes, (steps.owners, column), steps.sizes)
    np.add.at(gain, (steps.owners, column), steps.gains)
    sizes = sizes[:, ::-1].cumsum(axis=1)[:, ::-1]
    gain = gain[:, ::-1].cumsum(axis=1)[:, ::-1]
    first = np.zeros(jobs)
    np.maximum.at(first, steps.owners, slopes)
    return Demand(sizes, gain - prices * sizes, first)


@dataclass(frozen=True)
class Dual:
    """D(prices) = Σ_j max_t surplus_jt + Σ_t price_t · room_t."""

    prices: FloatArray
    demands: Sequence[Demand]
    room: Sequence[int]

    def smallest(self) -> list[int]:
        """Returns the indices of the prices that minimise D, by descent along single prices and along all at once."""
        found = [self._descended(start) for start in (0, len(self.prices) - 1)]
        return min(found, key=lambda at: float(self._values([np.array([i]) for i in at])[0]))

    def _descended(self, start: int) -> list[int]:
        at, every = [start] * len(self.demands), np.arange(len(self.prices))
        for _ in range(_MOST_SWEEPS):
            before = list(at)
            for kind in range(len(at)):
                tried = [every if k == kind else np.array([i]) for k, i in enumerate(at)]
                at[kind] = int(np.argmin(self._values(tried)))
            # Where types are alike, no price can change alone.
            together = [np.clip(i + every - at[0], 0, len(every) - 1) for i in at]
            best = int(np.argmin(self._values(together)))
            at = [int(numbers[best]) for numbers in together]
            if at == before:
                break
        return at

    def _values(self, at: Sequence[IntArray]) -> FloatArray:
        """Evaluates D; each type has one price index, or several to try."""
        left = [demand.surplus[:, numbers] for demand, numbers in zip(self.demands, at, strict=True)]
        paid = [self.prices[numbers] * room for numbers, room in zip(at, self.room, strict=True)]
        out: FloatArray = reduce(np.maximum, left).sum(axis=0) + reduce(np.add, paid)
        return out
