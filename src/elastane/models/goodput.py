"""Goodput = throughput × statistical efficiency, and the batch that maximises it (Pollux, OSDI'21, §3).

=========  ====================================================================
symbol     meaning
=========  ====================================================================
M          total batch K·m·(s+1); M0 the owner's own batch
φ          gradient noise scale, in samples
efficiency (φ + M0) / (φ + M), at most 1, and 1 at M = M0
goodput    M / T_iter × efficiency: samples per second worth as much as at M0
=========  ====================================================================

Everything is vectorised: one call answers for many jobs and many allocations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from elastane.cluster import Batch
from elastane.errors import ElastaneError
from elastane.models.estimate import Provenance
from elastane.models.speed import FloatArray, IntArray
from elastane.models.throughput import TINY_S, ThroughputParams, gradient_time_s, overlapped_s, sync_time_s

_CANDIDATES = 50
_GRID = np.arange(_CANDIDATES) / (_CANDIDATES - 1.0)
_ROUNDING = 1e-8


@dataclass(frozen=True, slots=True)
class PerGpuMax:
    """The most samples per GPU that the memory of one accelerator type holds."""

    gpu_type: str
    samples: int


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The batches a job may use.  ``fixed`` pins the total batch; then only K and accumulation adapt."""

    initial: int
    maximum: int
    per_gpu_min: int
    per_gpu_max: int
    fixed: int | None = None
    accumulate: bool = True
    per_gpu_max_on: tuple[PerGpuMax, ...] = ()
    """Accelerator types with more memory than ``per_gpu_max``, which holds on all, and what they hold."""

    def on(self, gpu_type: str) -> BatchLimits:
        """Returns the limits on one accelerator type."""
        return _on_type(self, gpu_type) if self.per_gpu_max_on else self

    def __post_init__(self) -> None:
        if not 1 <= self.initial <= self.maximum:
            raise ElastaneError(f"batch limits: need 1 <= initial ({self.initial}) <= maximum ({self.maximum})")
        if not 1 <= self.per_gpu_min <= self.per_gpu_max:
            raise ElastaneError(
                f"batch limits: need 1 <= per_gpu_min ({self.per_gpu_min}) <= per_gpu_max ({self.per_gpu_max})"
            )

    @property
    def max_workers(self) -> int:
        """The most workers that each get at least the smallest batch per GPU."""
        return max(1, (self.fixed or self.maximum) // self.per_gpu_min)


@lru_cache(maxsize=4096)
def _on_type(limits: BatchLimits, gpu_type: str) -> BatchLimits:
    most = next(
        (each.samples for each in limits.per_gpu_max_on if each.gpu_type == gpu_type), limits.per_gpu_max
    )
    return replace(limits, per_gpu_max=most, per_gpu_max_on=())


class BestBatch(NamedTuple):
    """For each allocation asked about: goodput (0 = infeasible), samples per GPU, extra passes."""

    rate: FloatArray
    per_gpu: IntArray
    accumulation: IntArray


def efficiency(noise: FloatArray, initial: FloatArray, batch: FloatArray) -> FloatArray:
    """Returns the progress per sample at ``batch`` relative to ``initial``; infinite noise means no loss at all."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(noise), 1.0, (noise + initial) / (noise + batch))


def split_batch(
    total: FloatArray, workers: FloatArray, limits: BatchLimitArrays
) -> tuple[FloatArray, FloatArray]:
    """Returns (m, s) that come closest to ``total`` on ``workers`` GPUs within memory.

    One worker alone above M0 always accumulates, since noise cannot be measured from a single gradient.
    """
    local = total / workers
    passes = np.maximum(np.ceil(local / limits.per_gpu_max - _ROUNDING), 1.0)
    alone = (workers == 1) & (local > limits.initial + _ROUNDING)
    passes = np.where(limits.accumulate, np.where(alone, np.maximum(passes, 2.0), passes), 1.0)
    per_gpu = np.ceil(local / passes - _ROUNDING)
    per_gpu = np.minimum(per_gpu, np.floor(limits.maximum / (workers * passes)))
    return per_gpu, passes - 1.0


def split_one(total: int, workers: int, limits: BatchLimits) -> Batch:
    """``split_batch`` for one job, in plain arithmetic because it is asked for one at a time."""
    passes = 1
    if limits.accumulate:
        passes = max(math.ceil(total / workers / limits.per_gpu_max - _ROUNDING), 1)
        if workers == 1 and total > limits.initial:
            passes = max(passes, 2)
    per_gpu = math.ceil(total / workers / passes - _ROUNDING)
    return Batch(min(per_gpu, limits.maximum // (workers * passes)), passes - 1)


class BatchLimitArrays(NamedTuple):
    """``BatchLimits`` of many jobs as arrays that broadcast against allocations."""

    initial: FloatArray
    maximum: FloatArray
    per_gpu_min: FloatArray
    per_gpu_max: FloatArray
    fixed: FloatArray  # 0: not fixed
    accumulate: FloatArray

    @classmethod
    def of(cls, limits: Sequence[BatchLimits]) -> BatchLimitArrays:
        """One entry per job on the leading axis, ready for (job, allocation, candidate) arrays."""
        rows = [
            (x.initial, x.maximum, x.per_gpu_min, x.per_gpu_max, x.fixed or 0, x.accumulate) for x in limits
        ]
        return cls(*np.array(rows, dtype=np.float64).T[:, :, None, None])


class Candidates(NamedTuple):
    """Batches worth comparing on given numbers of workers: arrays (allocations, candidates).

    They depend on neither θ nor φ, so they are computed once per kind of job.  Infeasible ones have batch 0.
    """

    per_gpu: FloatArray
    passes: FloatArray
    batch: FloatArray


@lru_cache(maxsize=4096)
def candidates(limits: BatchLimits, workers: tuple[int, ...]) -> Candidates:
    """Returns 50 geometrically spaced total batches per number of workers; those outside the limits are dropped."""
    arrays = BatchLimitArrays(*(a[0] for a in BatchLimitArrays.of([limits])))
    asked = np.array(workers, dtype=np.float64)[:, None]
    count = np.maximum(asked, 1.0)
    low = np.where(arrays.fixed > 0, arrays.fixed, np.maximum(arrays.initial, arrays.per_gpu_min * count))
    high = np.where(arrays.fixed > 0, arrays.fixed, np.maximum(arrays.maximum, low))
    total = low * np.exp(np.log(high / low) * (_GRID if not limits.fixed else _GRID[:1]))
    per_gpu, accumulation = split_batch(total, count, arrays)
    batch = count * per_gpu * (accumulation + 1.0)
    feasible = (per_gpu >= limits.per_gpu_min) & (per_gpu <= limits.per_gpu_max) & (asked >= 1)
    if not limits.fixed:
        # Rounding may fall below M0; and one worker that cannot accumulate cannot measure its noise above M0.
        feasible &= batch >= limits.initial
        feasible &= limits.accumulate | (count > 1) | (batch <= limits.initial)
    batch = np.where(feasible, batch, 0.0)
    found = Candidates(np.maximum(per_gpu, 1.0), accumulation + 1.0, batch)
    return found if limits.fixed else _with_uneven(limits, asked, found)


def _with_uneven(limits: BatchLimits, asked: FloatArray, found: Candidates) -> Candidates:
    """Adds, where no batch within the limits divides evenly, the owner's own in shares that differ by one sample.

    A step then takes as long as its largest share, and holds no more than the maximum.
    """
    count = np.maximum(asked, 1.0)
    passes = (
        np.ceil(limits.initial / (count * limits.per_gpu_max)) if limits.accumulate else np.ones_like(count)
    )
    least, most = (rounded(limits.initial / (count * passes)) for rounded in (np.floor, np.ceil))
    wanted = (found.batch <= 0).all(axis=-1, keepdims=True) & (asked >= 1)
    wanted &= (least >= limits.per_gpu_min) & (most <= limits.per_gpu_max)
    if not wanted.any():
        return found
    total = np.minimum(count * most * passes, limits.maximum)
    return Candidates(*(np.where(wanted, *pair) for pair in zip((most, passes, total), found, strict=True)))


@lru_cache(maxsize=65536)
def _one_size(limits: BatchLimits, workers: int) -> Candidates:
    """Returns only the feasible and distinct candidates for one number of workers, as 1-D arrays."""
    found = candidates(limits, (workers,))
    rows = np.stack([found.per_gpu[0], found.passes[0], found.batch[0]], axis=1)
    rows = np.unique(rows[rows[:, 2] > 0], axis=0)
    return Candidates(*(np.ascontiguousarray(column) for column in rows.T))


def _rates(
    theta: ThroughputParams[FloatArray],
    noise: FloatArray,
    initial: int,
    sync_s: FloatArray,
    found: Candidates,
) -> FloatArray:
    gradient_s = gradient_time_s(theta, found.per_gpu)
    step_s = (found.passes - 1.0) * gradient_s + overlapped_s(gradient_s, sync_s, theta.gamma)
    # Written so that an infinite noise, no loss at all, needs no case of its own.
    return found.batch / step_s * ((1.0 + initial / noise) / (1.0 + found.batch / noise))


@dataclass(frozen=True, eq=False)
class GoodputModel:
    """An immutable snapshot of what is known about one job's speed: θ per accelerator type, φ, limits.

    ``relative_error`` is the RMS of the relative step-time error of the fit.
    """

    params: dict[str, ThroughputParams[float]]
    noise: float
    limits: BatchLimits
    max_profiled: int
    source: Provenance = Provenance.FITTED
    relative_error: float = 0.0
    observations: int = 0
    widest: int = 0
    """The most samples per GPU it was ever observed with; 0: unknown."""
    profiled: Mapping[str, int] = field(default_factory=dict)
    """The most workers it was observed with on each accelerator type; where it says nothing, ``max_profiled``."""

    @property
    def max_useful(self) -> int:
        """The most workers that each get at least the smallest batch per GPU."""
        return self.limits.max_workers

    def seen_on(self, gpu_type: str) -> int:
        """The most workers it was observed with on that type."""
        return self.profiled.get(gpu_type, self.max_profiled)

    def theta(self, gpu_type: str) -> ThroughputParams[float]:
        """Returns θ on that type; a type never seen borrows the first one known (better: ``accelerator_types``)."""
        found = self.params.get(gpu_type)
        return found if found is not None else next(iter(self.params.values()))

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        """Goodput in samples per second with the best batch, for each allocation."""
        table: FloatArray = goodput_tables([self], nodes, workers, gpu_type).rate[0]
        return table

    def rate_of(self, batch: Batch, nodes: int, workers: int, gpu_type: str = "") -> float:
        """Goodput at a given batch; shares of a batch at its maximum may be uneven."""
        total = np.array([float(min(batch.total(workers), self.limits.maximum))])
        found = Candidates(np.array([float(batch.per_gpu)]), np.array([batch.accumulation + 1.0]), total)
        return float(self._rates_of(found, nodes, workers, gpu_type)[0])

    def _rates_of(self, found: Candidates, nodes: int, workers: int, gpu_type: str) -> FloatArray:
        """Goodput of each candidate on one allocation; θ stays plain floats, which is faster than small arrays."""
        theta = self.theta(gpu_type)
        alpha, beta = (theta.alpha_n, theta.beta_n) if nodes > 1 else (theta.alpha_r, theta.beta_r)
        sync_s = alpha + beta * max(workers - 2.0, TINY_S) if workers > 1 else TINY_S
        noise = max(self.noise, TINY_S)
        return _rates(theta, noise, self.limits.initial, sync_s, found)  # type: ignore[arg-type]

    def best_of(self, nodes: int, workers: int, gpu_type: str = "") -> tuple[float, Batch | None]:
        """Goodput with the best batch on one allocation, and that batch; (0, None) when it is not feasible."""
        found = _one_size(self.limits.on(gpu_type), workers)
        if not found.batch.size:
            return 0.0, None
        rates = self._rates_of(found, nodes, workers, gpu_type)
        best = int(np.argmax(rates))
        return float(rates[best]), Batch(int(found.per_gpu[best]), int(found.passes[best]) - 1)

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:
        """Returns the batch that reaches ``rates``; None where the allocation is not feasible."""
        return self.best_of(nodes, workers, gpu_type)[1]


def goodput_tables(
    models: Sequence[GoodputModel], nodes: IntArray, workers: IntArray, gpu_type: str = ""
) -> BestBatch:
    """Best batch and goodput of every model for every (nodes, workers) pair: arrays (models, pairs)."""
    shape = (len(models), len(workers))
    answer = BestBatch(np.zeros(shape), np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64))
    alike: dict[BatchLimits, list[int]] = {}
    for row, model in enumerate(models):
        alike.setdefault(model.limits.on(gpu_type), []).append(row)
    sizes = tuple(workers.tolist())
    columns = np.arange(len(sizes))
    for limits, rows in alike.items():
        found = candidates(limits, sizes)
        stacked = np.array([models[row].theta(gpu_type) for row in rows], dtype=np.float64)
        theta = ThroughputParams(*stacked.T[:, :, None, None])
        noise = np.maximum(np.array([models[row].noise for row in rows]), TINY_S)[:, None, None]
        where = (a.astype(np.float64)[:, None] for a in (nodes, workers))
        sync_s = sync_time_s(theta, *where)
        rates = _rates(theta, noise, limits.initial, sync_s, found)
        best = np.argmax(rates, axis=-1)
        answer.rate[rows] = np.take_along_axis(rates, best[..., None], axis=-1)[..., 0]
        answer.per_gpu[rows] = found.per_gpu[columns, best]
        answer.accumulation[rows] = found.passes[columns, best] - 1
    return answer
