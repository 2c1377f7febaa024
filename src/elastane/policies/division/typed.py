"""The count problem with several accelerator types: one type and a number of GPUs of it for each job.

    max Σ_j values[t_j][j, k_j]   with   Σ_{j: t_j = t} k_j ≤ total_t   for every type t

Every type gets a price per GPU.  At given prices each job takes what leaves it most (its value less what it costs), and
prices are lowered or raised type by type until no type is asked for more than there is: coordinate descent on the dual,
on a grid of prices, for all jobs at once.  Jobs then take their types in turn, those who would lose most by another one
first, GPUs of each type are divided exactly (``best_counts``), and who would gain by another type is moved there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.division.solver import Steps, best_counts, hull_steps

_GRID = 64
_MOST_SWEEPS = 12
_TRIALS = 240
"""Moves that are tried, divided by the number of jobs; at least ``_FEWEST``."""
_FEWEST = 6
_HOPELESS = 1.0
"""A move that seems to lose more than so many GPUs are worth is not tried."""
_GAIN = 1e-9
_TINY = 1e-12


@dataclass(frozen=True)
class Division:
    """For each job its type, and how many GPUs of that."""

    kinds: IntArray
    counts: IntArray


@dataclass(frozen=True)
class _Demand:
    """Of one type: what each job would take at each price, and what that leaves it: (job, price)."""

    prices: FloatArray
    sizes: IntArray
    surplus: FloatArray
    first: FloatArray
    """The price below which a job would take any."""
    steps: Steps


def best_division(values: Sequence[FloatArray], totals: Sequence[int]) -> Division:
    """The types and sizes that maximise the sum; −inf marks what a job may not have.

    A job whose size 0 is not allowed on some type stays on that type; on all others it must be allowed.
    """
    home = np.full(len(values[0]), -1)
    for kind, table in enumerate(values):
        home[~np.isfinite(table[:, 0])] = kind
    free = home < 0
    taken = [int(_starts(table[home == kind]).sum()) for kind, table in enumerate(values)]
    left = [total - used for total, used in zip(totals, taken, strict=True)]
    demands = [_demand(table, free) for table in values]
    at = _prices(demands, left)
    choices = [np.where(free, kinds, home) for kinds in _types(demands, at, left)]
    answer = max(
        (_Answer(values, totals, demands, kinds) for kinds in choices), key=lambda answer: answer.worth
    )
    answer.improve([float(demand.prices[i]) for demand, i in zip(demands, at, strict=True)], free)
    return Division(answer.kinds, answer.counts)


def _starts(table: FloatArray) -> IntArray:
    """The smallest size each job may have."""
    out: IntArray = np.argmax(np.isfinite(table), axis=1) if table.size else np.zeros(0, dtype=np.int64)
    return out


def _demand(table: FloatArray, free: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> _Demand:
    every = hull_steps(table, _starts(table))
    mine = free[every.owners]
    owners, steps, gains = every.owners[mine], every.sizes[mine], every.gains[mine]
    slopes = gains / np.maximum(steps, 1)
    prices = np.unique(np.quantile(slopes, np.linspace(0.0, 1.0, _GRID))) if len(slopes) else np.zeros(0)
    prices = np.concatenate([[0.0], prices])
    column = np.searchsorted(prices, slopes) - 1  # the highest price below the slope
    sizes = np.zeros((len(table), len(prices)), dtype=np.int64)
    gain = np.zeros((len(table), len(prices)))
    np.add.at(sizes, (owners, column), steps)
    np.add.at(gain, (owners, column), gains)
    sizes = sizes[:, ::-1].cumsum(axis=1)[:, ::-1]
    gain = gain[:, ::-1].cumsum(axis=1)[:, ::-1]
    first = np.zeros(len(table))
    np.maximum.at(first, owners, slopes)
    return _Demand(prices, sizes, gain - prices * sizes, first, every)


def _prices(demands: Sequence[_Demand], left: Sequence[int]) -> list[int]:
    """Where the dual Σ_j max_t surplus_jt + Σ_t price_t · left_t is smallest, as far as one price at a time gets."""
    found = [_descended(demands, left, start) for start in (0.0, 1.0)]
    return min(found, key=lambda at: _dual(demands, left, at))


def _descended(demands: Sequence[_Demand], left: Sequence[int], start: float) -> list[int]:
    at = [int(start * (len(demand.prices) - 1)) for demand in demands]
    for _ in range(_MOST_SWEEPS):
        before = list(at)
        for kind, demand in enumerate(demands):
            others = [d.surplus[:, i] for k, (d, i) in enumerate(zip(demands, at, strict=True)) if k != kind]
            elsewhere = np.maximum.reduce(others)[:, None]
            dual = np.maximum(demand.surplus, elsewhere).sum(axis=0) + demand.prices * left[kind]
            at[kind] = int(np.argmin(dual))
        if at == before:
            break
    return at


def _dual(demands: Sequence[_Demand], left: Sequence[int], at: Sequence[int]) -> float:
    pairs = list(zip(demands, at, strict=True))
    paid = sum(float(demand.prices[i]) * total for (demand, i), total in zip(pairs, left, strict=True))
    return paid + float(np.maximum.reduce([demand.surplus[:, i] for demand, i in pairs]).sum())


def _types(demands: Sequence[_Demand], at: Sequence[int], left: Sequence[int]) -> list[IntArray]:
    """Two ways to choose types at these prices, in turn or at once; a job that buys nothing goes where it nearly did.

    Where jobs are alike they all want the same, so they choose in turn, who would lose most by another type first.
    Where one job wants nearly all of a type, small ones before it must not take its room.
    """
    pairs = list(zip(demands, at, strict=True))
    surplus = np.stack([demand.surplus[:, i] for demand, i in pairs], axis=1)
    sizes = np.stack([demand.sizes[:, i] for demand, i in pairs], axis=1)
    near = np.stack([demand.first / max(float(demand.prices[i]), _TINY) for demand, i in pairs], axis=1)
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
    """Jobs with their types, GPUs of each type divided among them."""

    def __init__(
        self,
        values: Sequence[FloatArray],
        totals: Sequence[int],
        demands: Sequence[_Demand],
        kinds: IntArray,
    ) -> None:
        self._values, self._totals, self._demands = values, totals, demands
        self.kinds = kinds
        self.counts = np.zeros(len(kinds), dtype=np.int64)
        self._worth = [0.0] * len(values)
        for kind in range(len(values)):
            self._worth[kind] = self._divide(kind, self.kinds, self.counts)

    @property
    def worth(self) -> float:
        """Of all types together."""
        return sum(self._worth)

    def _divide(self, kind: int, kinds: IntArray, counts: IntArray) -> float:
        """Divide one type's GPUs among its jobs; what that is worth, over nothing."""
        rows = np.flatnonzero(kinds == kind)
        table = self._values[kind][rows]
        steps = self._demands[kind].steps.of(rows, len(kinds))
        counts[rows] = best_counts(table, self._totals[kind], steps)
        first = np.where(np.isfinite(table[:, 0]), table[:, 0], 0.0) if len(rows) else np.zeros(0)
        return float((self._values[kind][rows, counts[rows]] - first).sum())

    def improve(self, prices: Sequence[float], free: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Move jobs to other types, the most promising first, while that gains."""
        for _ in range(max(_TRIALS // max(len(self.kinds), 1), _FEWEST)):
            if not any(self._moved(job, kind) for job, kind in self._candidates(prices, free)):
                return

    def _candidates(
        self, prices: Sequence[float], free: np.ndarray[tuple[int], np.dtype[np.bool_]]
    ) -> list[tuple[int, int]]:
        """(job, other type) by what the job would gain there at these prices."""
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
        return [(job, kind) for job, kind in pairs if gain[job, kind] > -_HOPELESS * prices[kind]]

    def _moved(self, job: int, kind: int) -> bool:
        """Whether a job was better moved there; then it is."""
        old = int(self.kinds[job])
        kinds, counts = self.kinds.copy(), self.counts.copy()
        kinds[job] = kind
        worth = {k: self._divide(k, kinds, counts) for k in (old, kind)}
        before = self._worth[old] + self._worth[kind]
        if sum(worth.values()) <= before + _GAIN * abs(before):
            return False
        self.kinds, self.counts = kinds, counts
        for k, value in worth.items():
            self._worth[k] = value
        return True
