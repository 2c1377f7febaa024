"""The count problem: how many GPUs for each job, maximising a sum of per-job values under one total.

Small problems are solved exactly by dynamic programming; large ones by climbing every job's concave hull in order of
gain per GPU, which is exact but for the last few GPUs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray, IntArray

_EXACT_CELLS = 150_000
"""Above this many (job, total, size) cells the hull method is used: it costs a few ms where DP would cost many."""


class Steps(NamedTuple):
    """Steps along upper concave hulls, as columns: the job, GPUs added, value gained, size reached."""

    owners: IntArray
    sizes: IntArray
    gains: FloatArray
    targets: IntArray

    def of(self, rows: IntArray, jobs: int) -> Steps:
        """Selects the steps of ``rows`` out of ``jobs`` jobs, renumbered from 0."""
        numbers = np.full(jobs, -1)
        numbers[rows] = np.arange(len(rows))
        found = self.where(numbers[self.owners] >= 0)
        return found._replace(owners=numbers[found.owners])

    def where(self, chosen: NDArray[np.bool_]) -> Steps:
        """Returns the columns selected by a mask."""
        return Steps(self.owners[chosen], self.sizes[chosen], self.gains[chosen], self.targets[chosen])


def best_counts(values: FloatArray, total: int, steps: Steps | None = None) -> IntArray:
    """Returns the sizes that maximise Σ values[j, size_j] with Σ size_j ≤ total; −inf marks sizes not allowed.

    Size 0 must be allowed for every job, or the smallest allowed sizes must fit together.  ``steps`` are those of
    ``hull_steps``, if they are known already.
    """
    jobs, sizes = values.shape
    if jobs == 0:
        return np.zeros(0, dtype=np.int64)
    if jobs * (total + 1) * sizes <= _EXACT_CELLS:
        return _dynamic_programme(values, total)
    return _climb_hulls(values, total, steps)


def _dynamic_programme(values: FloatArray, total: int) -> IntArray:
    """Exact: best value of the first j jobs with every total; O(jobs × total × sizes), vectorised over the rest."""
    jobs, sizes = values.shape
    spent = np.arange(total + 1)[:, None] - np.arange(sizes)[None, :]
    # One extra cell of -inf stands for totals below zero.
    index = np.where(spent >= 0, spent, total + 1)
    best = np.zeros(total + 2)
    best[-1] = -np.inf
    choice = np.zeros((jobs, total + 1), dtype=np.int64)
    for j in range(jobs):
        candidates = best[index] + values[j]
        choice[j] = np.argmax(candidates, axis=1)
        best[:-1] = np.take_along_axis(candidates, choice[j][:, None], axis=1)[:, 0]
    counts = np.zeros(jobs, dtype=np.int64)
    left = total
    for j in range(jobs - 1, -1, -1):
        counts[j] = choice[j, left]
        left -= counts[j]
    return counts


def _climb_hulls(values: FloatArray, total: int, steps: Steps | None = None) -> IntArray:
    """Takes steps along all concave hulls by falling gain per GPU while they fit."""
    start = np.argmax(np.isfinite(values), axis=1)
    owners, sizes, gains, targets = steps or hull_steps(values, start)
    order = np.argsort(-gains / sizes, kind="stable")
    counts = start.astype(np.int64)
    left = total - int(counts.sum())
    stopped = np.zeros(len(values), dtype=bool)
    # Nearly all steps fit: take the longest prefix at once, then look at the rest one by one.
    cumulative = np.cumsum(sizes[order])
    prefix = int(np.searchsorted(cumulative, left, side="right"))
    taken = order[:prefix]
    np.maximum.at(counts, owners[taken], targets[taken])
    left -= int(cumulative[prefix - 1]) if prefix else 0
    for step in order[prefix:]:
        if left <= 0:
            break
        owner = owners[step]
        if stopped[owner]:
            continue
        if sizes[step] <= left:
            counts[owner] = targets[step]
            left -= sizes[step]
        else:
            stopped[owner] = True
    return _spend_rest(values, counts, left)


def hull_steps(values: FloatArray, start: IntArray) -> Steps:
    """Returns the steps along every job's upper concave hull, from its size in ``start``."""
    jobs, sizes = values.shape
    if jobs < sizes:
        return _row_hulls(values, start)  # few jobs with long hulls: job by job is faster than step by step
    grid = np.arange(sizes)
    at = start.copy()
    rows = np.arange(jobs)
    found: list[tuple[IntArray, IntArray, FloatArray, IntArray]] = []
    active = rows
    while active.size:
        here = at[active][:, None]
        ahead = grid[None, :] - here
        with np.errstate(invalid="ignore", divide="ignore"):
            rise = values[active] - np.take_along_axis(values[active], here, axis=1)
            slope = np.where(ahead > 0, rise / ahead, -np.inf)
        target = np.argmax(slope, axis=1)
        gain = np.take_along_axis(rise, target[:, None], axis=1)[:, 0]
        moving = (target > here[:, 0]) & (gain > 0)
        active, target, gain = active[moving], target[moving], gain[moving]
        found.append((active, target - at[active], gain, target))
        at[active] = target
    return Steps(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _row_hulls(values: FloatArray, start: IntArray) -> Steps:
    """The same steps by a monotone chain over each job's sizes, in plain arithmetic: O(sizes) per job."""
    owners, steps, gains, targets = [], [], [], []
    for job, row in enumerate(values.tolist()):
        hull: list[tuple[int, float]] = []
        for size in range(int(start[job]), len(row)):
            value = row[size]
            if value == -np.inf:
                continue
            while len(hull) > 1:
                (a, va), (b, vb) = hull[-2], hull[-1]
                if (vb - va) * (size - b) > (value - vb) * (b - a):
                    break
                hull.pop()
            hull.append((size, value))
        for (a, va), (b, vb) in pairwise(hull):
            if vb <= va:
                break  # a concave hull that has begun to fall will not rise again
            owners.append(job)
            steps.append(b - a)
            gains.append(vb - va)
            targets.append(b)
    whole = (np.array(x, dtype=np.int64) for x in (owners, steps, targets))
    owner, step, target = whole
    return Steps(owner, step, np.array(gains), target)


def _spend_rest(values: FloatArray, counts: IntArray, left: int) -> IntArray:
    """Spends the GPUs that no whole hull step fitted into: repeatedly the best gain within what is left."""
    rows = np.arange(len(counts))
    while left > 0:
        now = values[rows, counts]
        reach = counts[:, None] + np.arange(1, left + 1)[None, :]
        allowed = reach < values.shape[1]
        gains = np.where(allowed, values[rows[:, None], np.minimum(reach, values.shape[1] - 1)], -np.inf)
        gains = gains - now[:, None]
        best = int(np.argmax(gains))
        job, extra = divmod(best, left)
        if not gains[job, extra] > 0:
            break
        counts[job] += extra + 1
        left -= extra + 1
    return counts
