"""Solves the count problem with several accelerator types: one type and a number of its GPUs for each job.

    max Σ_j values[t_j][j, k_j]   with   Σ_{j: t_j = t} k_j ≤ total_t   for every type t

Every type gets a price per GPU (``dual``), at which each job chooses the type with the largest surplus.  Then the GPUs
of each type are divided among the jobs that chose it (``best_counts``), and a local search moves jobs between types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.allocation.dual import Demand, Dual, demand_of, price_grid
from elastane.policies.allocation.solver import Steps, best_counts, hull_steps

_TRIALS = 240
"""Moves that are tried, divided by the number of jobs; at least ``_FEWEST``."""
_FEWEST = 6
_FEW = 8
"""With no more jobs than this, pairs of jobs may also exchange their types."""
_HOPELESS = 1.0
"""A move that seems to lose more than the price of this many GPUs is not tried."""
_GAIN = 1e-9
_TINY = 1e-12

Flags = NDArray[np.bool_]
_Move = dict[int, int]
"""Other types for some jobs."""


@dataclass(frozen=True)
class Division:
    """The accelerator type of each job, by number, and how many GPUs of it the job gets."""

    kinds: IntArray
    counts: IntArray


def best_division(values: Sequence[FloatArray], totals: Sequence[int]) -> Division:
    """Returns types and sizes that (nearly) maximise the sum; −inf marks what a job may not have.

    A job whose size 0 is not allowed on some type stays on that type; on all others it must be allowed.
    """
    home = np.full(len(values[0]), -1)
    for kind, table in enumerate(values):
        home[~np.isfinite(table[:, 0])] = kind
    free = home < 0
    taken = [int(_starts(table[home == kind]).sum()) for kind, table in enumerate(values)]
    left = [total - used for total, used in zip(totals, taken, strict=True)]
    every = [hull_steps(table, _starts(table)) for table in values]
    movable = [steps.where(free[steps.owners]) for steps in every]
    grid = price_grid(movable)
    demands = [demand_of(steps, len(free), grid) for steps in movable]
    at = Dual(grid, demands, left).smallest()
    prices = grid[at]
    choices = [np.where(free, kinds, home) for kinds in _types(demands, at, prices, left)]
    answer = max((_Answer(values, totals, every, kinds) for kinds in choices), key=lambda answer: answer.worth)
    answer.improve(prices, free)
    return Division(answer.kinds, answer.counts)


def _starts(table: FloatArray) -> IntArray:
    """Returns the smallest allowed size of each job."""
    out: IntArray = np.argmax(np.isfinite(table), axis=1) if table.size else np.zeros(0, dtype=np.int64)
    return out


def _types(
    demands: Sequence[Demand], at: Sequence[int], prices: FloatArray, left: Sequence[int]
) -> list[IntArray]:
    """Assigns types at these prices in two ways; a job that buys nothing gets the type it came closest to buying.

    Similar jobs all want the same type, so they choose in turn, the job that would lose most by another type first.
    Where one job wants nearly all of a type, small ones must not take its room first, so all choose at once as well.
    """
    pairs = list(zip(demands, at, strict=True))
    surplus = np.stack([demand.surplus[:, i] for demand, i in pairs], axis=1)
    sizes = np.stack([demand.sizes[:, i] for demand, i in pairs], axis=1)
    near = np.stack([demand.first for demand in demands], axis=1) / np.maximum(prices, _TINY)
    ranked = np.sort(surplus, axis=1)
    at_once = np.where(ranked[:, -1] > 0.0, np.argmax(surplus, axis=1), np.argmax(near, axis=1))
    in_turn = at_once.copy()
    room = list(left)
    wishes = np.argsort(-surplus, axis=1, kind="stable").tolist()
    for job in np.argsort(ranked[:, -2] - ranked[:, -1], kind="stable").tolist():
        for kind in wishes[job]:
            if 0 < sizes[job, kind] <= room[kind]:
                in_turn[job] = kind
                room[kind] -= int(sizes[job, kind])
                break
    return [in_turn] if np.array_equal(in_turn, at_once) else [in_turn, at_once]


class _Answer:
    """A solution that is being improved: the type and the GPUs of each job, and the value of every type."""

    def __init__(
        self,
        values: Sequence[FloatArray],
        totals: Sequence[int],
        steps: Sequence[Steps],
        kinds: IntArray,
    ) -> None:
        self._values, self._totals, self._steps = values, totals, steps
        self.kinds = kinds
        self.counts = np.zeros(len(kinds), dtype=np.int64)
        self._worth = [0.0] * len(values)
        for kind in range(len(values)):
            self._worth[kind] = self._divide(kind, self.kinds, self.counts)

    @property
    def worth(self) -> float:
        """Returns the value of all types together."""
        return sum(self._worth)

    def _divide(self, kind: int, kinds: IntArray, counts: IntArray) -> float:
        """Divides one type's GPUs among its jobs; returns the value gained over giving them nothing."""
        rows = np.flatnonzero(kinds == kind)
        table = self._values[kind][rows]
        steps = self._steps[kind].of(rows, len(kinds))
        counts[rows] = best_counts(table, self._totals[kind], steps)
        first = np.where(np.isfinite(table[:, 0]), table[:, 0], 0.0) if len(rows) else np.zeros(0)
        return float((self._values[kind][rows, counts[rows]] - first).sum())

    def improve(self, prices: FloatArray, free: Flags) -> None:
        """Moves jobs to other types, the most promising first, while that gains; a few jobs may also exchange types."""
        few = int(free.sum()) <= _FEW
        for _ in range(max(_TRIALS // max(len(free), 1), _FEWEST)):
            moves = self._candidates(prices, free) + (self._exchanges(free) if few else [])
            if not any(self._moved(move) for move in moves):
                return

    def _candidates(self, prices: FloatArray, free: Flags) -> list[_Move]:
        """Returns moves of one job to another type, sorted by what it would gain there at these prices."""
        rows = np.arange(len(self.kinds))
        gains = []
        now = np.zeros(len(rows))
        for kind, table in enumerate(self._values):
            net = table - prices[kind] * np.arange(table.shape[1])
            mine = self.kinds == kind
            now[mine] = net[rows[mine], self.counts[mine]]
            gains.append(np.where(free & ~mine, net.max(axis=1), -np.inf))
        gain = np.stack(gains, axis=1) - now[:, None]
        best = np.argsort(-gain, axis=None, kind="stable")[: max(_TRIALS // max(len(rows), 1), _FEWEST)]
        pairs = [divmod(int(i), len(self._values)) for i in best]
        return [{job: kind} for job, kind in pairs if gain[job, kind] > -_HOPELESS * prices[kind]]

    def _exchanges(self, free: Flags) -> list[_Move]:
        """Returns moves in which two jobs of different types exchange them."""
        pairs = combinations(np.flatnonzero(free).tolist(), 2)
        each = [(one, other, int(self.kinds[one]), int(self.kinds[other])) for one, other in pairs]
        return [{one: theirs, other: mine} for one, other, mine, theirs in each if mine != theirs]

    def _moved(self, move: _Move) -> bool:
        """Makes a move if it improves the solution; tells whether it did."""
        kinds, counts = self.kinds.copy(), self.counts.copy()
        kinds[list(move)] = list(move.values())
        touched = sorted({*move.values(), *self.kinds[list(move)].tolist()})
        worth = {kind: self._divide(kind, kinds, counts) for kind in touched}
        before = sum(self._worth[kind] for kind in touched)
        if sum(worth.values()) <= before + _GAIN * abs(before):
            return False
        self.kinds, self.counts = kinds, counts
        for kind, value in worth.items():
            self._worth[kind] = value
        return True
