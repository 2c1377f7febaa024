"""Estimates every job as arrays: speed-up curve over all sizes, remaining work, speed with an equal share of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from elastane.models.goodput import GoodputModel, goodput_tables
from elastane.models.speed import FloatArray, IntArray, SpeedModel
from elastane.policies.allocation.problem import Problem
from elastane.policies.view import Ability, JobView, View, has

_TINY = 1e-12
_USUAL = 0.8
"""Exponent of the speed-up curve, k^0.8 with k GPUs, assumed for a job that was never measured."""

_CACHE: WeakKeyDictionary[GoodputModel, tuple[tuple[int, int, int], FloatArray]] = WeakKeyDictionary()
"""Models are immutable, so their rates are kept as long as they live."""


@dataclass(frozen=True)
class JobEstimates:
    """The estimates of all jobs as arrays over (job, size).

    ``curves`` is the speed-up over one GPU; ``alone`` is work per second on one GPU (NaN: never measured);
    ``left_work`` is the remaining work (NaN: unknown).
    """

    jobs: tuple[JobView, ...]
    total_gpus: int
    sizes: IntArray
    curves: FloatArray
    alone: FloatArray
    left_work: FloatArray
    least: IntArray
    most: IntArray
    present: FloatArray | None = None
    """Speed-up with what each job holds now, where that depends on the accelerator type."""

    @cached_property
    def measured(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Mask of jobs with a known speed."""
        return ~np.isnan(self.alone)

    @cached_property
    def left_s(self) -> FloatArray:
        """Seconds left on one GPU; NaN where speed or work is unknown."""
        out: FloatArray = self.left_work / np.maximum(self.alone, _TINY)
        return out

    def speedup_of(self, row: int, gpus: int) -> float:
        """Returns the speed-up over one GPU of one job with so many GPUs; 0 without any."""
        return float(np.interp(gpus, self.sizes, self.curves[row])) if gpus else 0.0

    def present_speedup(self, row: int) -> float:
        """Returns the speed-up over one GPU of one job with what it holds now."""
        if self.present is not None:
            return float(self.present[row])
        return self.speedup_of(row, self.jobs[row].workers)

    def speedups_at(self, gpus: float) -> FloatArray:
        """Returns every job's speed-up with ``gpus`` (fractions allowed); below its least size it is time-shared."""
        size = np.clip(gpus, self.least, self.most)
        at = np.clip(np.searchsorted(self.sizes, size, side="right") - 1, 0, len(self.sizes) - 1)
        after = np.minimum(at + 1, len(self.sizes) - 1)
        gap = np.maximum(self.sizes[after] - self.sizes[at], 1)
        part = np.clip((size - self.sizes[at]) / gap, 0.0, 1.0)
        rows = np.arange(len(self.jobs))
        whole = self.curves[rows, at] * (1.0 - part) + self.curves[rows, after] * part
        out: FloatArray = whole * np.minimum(1.0, gpus / self.least)
        return out


def look(jobs: tuple[JobView, ...], view: View, belief: Belief) -> JobEstimates:
    """Estimates the jobs of a view whose GPUs are all of one type, in the order given."""
    sizes = sizes_up_to(max(view.total_gpus, 1))
    per_node = max((node.gpus for node in view.usable.values()), default=1)
    return outlook_of(jobs, view.total_gpus, *speedups_of(jobs, sizes, per_node, belief))


def speedups_of(
    jobs: Sequence[JobView], sizes: IntArray, per_node: int, belief: Belief, gpu_type: str = ""
) -> tuple[FloatArray, FloatArray]:
    """Returns ``curves`` and ``alone`` of an ``JobEstimates``, for one accelerator type."""
    curves = np.tile(sizes.astype(np.float64) ** _USUAL, (len(jobs), 1))
    alone = np.full(len(jobs), np.nan)
    known = [(row, speed) for row, job in enumerate(jobs) if (speed := job.speed) is not None]
    if known:
        rows = [row for row, _ in known]
        rates = rates_of([speed for _, speed in known], sizes, per_node, gpu_type)
        # A job that cannot run on one GPU at all is measured by the smallest size it can run on.
        first = np.argmax(rates > 0.0, axis=1)
        base = rates[np.arange(len(rows)), first] / sizes[first]
        alone[rows] = np.maximum(base, _TINY)
        seen = np.array([max(speed.max_profiled, 1) for _, speed in known])
        at = np.maximum(np.searchsorted(sizes, seen, side="right") - 1, 0)
        speedups = rates / alone[rows][:, None]
        last = speedups[np.arange(len(rows)), at]
        curves[rows] = belief.of(rows).limited(speedups, sizes, sizes[at], last)
    return curves, alone


def outlook_of(jobs: tuple[JobView, ...], total: int, curves: FloatArray, alone: FloatArray) -> JobEstimates:
    """Completes the estimates with each job's size limits and remaining work; curves are flat beyond the most."""
    sizes = sizes_up_to(max(total, 1))
    least = np.array([_least(job) for job in jobs], dtype=np.int64)
    most = np.array([min(_most(job), max(total, 1)) for job in jobs], dtype=np.int64)
    most = np.maximum(most, least)
    beyond = sizes[None, :] > most[:, None]
    top = np.take_along_axis(curves, np.maximum((~beyond).sum(axis=1) - 1, 0)[:, None], axis=1)
    left = [job.remaining for job in jobs]
    return JobEstimates(
        jobs=jobs,
        total_gpus=total,
        sizes=sizes,
        curves=np.where(beyond, top, curves),
        alone=alone,
        left_work=np.array([np.nan if x is None else x.mean for x in left]),
        least=least,
        most=most,
    )


@dataclass(frozen=True)
class Belief:
    """Limits on the speed-up assumed beyond the GPUs that jobs were ever seen with.

    With k times more on the same node k^``within``, with k times more than a node has k^``beyond`` (per job).
    """

    within: float
    beyond: FloatArray
    per_node: int

    def of(self, rows: Sequence[int]) -> Belief:
        """Returns the limits of some of the jobs."""
        return replace(self, beyond=self.beyond[list(rows)])

    def limited(self, table: FloatArray, sizes: IntArray, seen: IntArray, last: FloatArray) -> FloatArray:
        """Caps the rates of ``table`` (job, size) beyond ``seen`` GPUs, relative to ``last``, the rate at ``seen``."""
        more = np.maximum(sizes[None, :] / np.maximum(seen, 1)[:, None], 1.0)
        over = np.maximum(sizes[None, :] / np.maximum(seen, self.per_node)[:, None], 1.0)
        limit = last[:, None] * (more / over) ** self.within * over ** self.beyond[:, None]
        return np.where(more > 1.0, np.minimum(table, limit), table)


def cautious(problem: Problem, belief: Belief) -> Problem:
    """Returns the problem with speed-ups beyond what jobs were seen with capped; unmeasured jobs stay as they are."""
    if not problem.jobs:
        return problem
    sizes = np.arange(problem.several.shape[1])
    unknown = len(sizes)
    seen = np.array([max(speed.max_profiled, 1) if (speed := job.speed) else unknown for job in problem.jobs])
    at = np.arange(len(seen)), np.minimum(seen, len(sizes) - 1)
    last = np.maximum(problem.one_node[at], problem.several[at])
    return replace(
        problem,
        one_node=belief.limited(problem.one_node, sizes, seen, last),
        several=belief.limited(problem.several, sizes, seen, last),
    )


def _least(job: JobView) -> int:
    resizable = has(job.abilities, Ability.RESIZE)
    return max(job.request.min_workers if resizable else job.request.workers, 1)


def _most(job: JobView) -> int:
    return job.request.max_workers if has(job.abilities, Ability.RESIZE) else job.request.workers


def sizes_up_to(total: int) -> IntArray:
    """Returns the sizes to evaluate: every one up to 4, then powers of two and the steps half-way between them."""
    found = {1, 2, 3, 4, total}
    power = 4
    while power <= total:
        found |= {power, power * 3 // 2}
        power *= 2
    return np.array(sorted(size for size in found if 0 < size <= total), dtype=np.int64)


def rates_of(models: Sequence[SpeedModel], sizes: IntArray, per_node: int, gpu_type: str = "") -> FloatArray:
    """Returns work per second for each (model, size), on as few nodes as possible; it never falls with more GPUs."""
    nodes = np.minimum(-(-sizes // per_node), 2)
    key = (len(sizes), int(sizes[-1]), per_node)
    rates = np.zeros((len(models), len(sizes)))
    fresh: list[tuple[int, GoodputModel]] = []
    for row, model in enumerate(models):
        if not isinstance(model, GoodputModel):
            rates[row] = np.maximum.accumulate(model.rates(nodes, sizes, gpu_type))
            continue
        known = _CACHE.get(model)
        if known is not None and known[0] == key:
            rates[row] = known[1]
        else:
            fresh.append((row, model))
    if fresh:
        found = np.maximum.accumulate(
            goodput_tables([m for _, m in fresh], nodes, sizes, gpu_type).rate, axis=1
        )
        for (row, model), line in zip(fresh, found, strict=True):
            rates[row] = line
            _CACHE[model] = (key, line)
    return rates
