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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elastane.cluster import Batch
from elastane.errors import ElastaneError
from elastane.models.estimate import Provenance
from elastane.models.speed import FloatArray, IntArray
from elastane.models.throughput import ThroughputParams, gradient_time_s, overlapped_s, sync_time_s

_CANDIDATES = 50
_GRID = np.arange(_CANDIDATES) / (_CANDIDATES - 1.0)
_ROUNDING = 1e-8


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What batches a job may use.  ``fixed`` pins the total batch; then only K and accumulation adapt."""

    initial: int
    maximum: int
    per_gpu_min: int
    per_gpu_max: int
    fixed: int | None = None
    accumulate: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.initial <= self.maximum:
            raise ElastaneError(f"batch limits: need 1 <= initial ({self.initial}) <= maximum ({self.maximum})")
        if not 1 <= self.per_gpu_min <= self.per_gpu_max:
            raise ElastaneError(
                f"batch limits: need 1 <= per_gpu_min ({self.per_gpu_min}) <= per_gpu_max ({self.per_gpu_max})"
            )

    @property
    def max_workers(self) -> int:
        """Beyond this some worker would get less than its smallest batch."""
        return max(1, (self.fixed or self.maximum) // self.per_gpu_min)


class BestBatch(NamedTuple):
    """For each allocation asked about: goodput (0 = infeasible), samples per GPU, extra passes."""

    rate: FloatArray
    per_gpu: IntArray
    accumulation: IntArray


def efficiency(noise: FloatArray, initial: FloatArray, batch: FloatArray) -> FloatArray:
    """Worth of a sample at ``batch`` relative to one at ``initial``; infinite noise means no loss at all."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(noise), 1.0, (noise + initial) / (noise + batch))


def split_batch(
    total: FloatArray, workers: FloatArray, limits: BatchLimitArrays
) -> tuple[FloatArray, FloatArray]:
    """(m, s) that come closest to ``total`` on ``workers`` GPUs within memory.

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


def best_batches(
    theta: ThroughputParams[FloatArray],
    noise: FloatArray,
    limits: BatchLimitArrays,
    nodes: FloatArray,
    workers: FloatArray,
) -> BestBatch:
    """The best of 50 geometrically spaced total batches for every (job, allocation).

    θ, noise and limits have shape (jobs, 1, 1); ``nodes`` and ``workers`` (jobs or 1, allocations, 1).
    Candidates whose m is outside its bounds are dropped, so infeasible allocations answer 0.
    """
    asked = workers
    workers = np.maximum(workers, 1.0)  # nothing is asked of no workers; it is answered 0 below
    low = np.where(limits.fixed > 0, limits.fixed, np.maximum(limits.initial, limits.per_gpu_min * workers))
    high = np.where(limits.fixed > 0, limits.fixed, np.maximum(limits.maximum, low))
    total = low * np.exp(np.log(high / low) * _GRID)
    per_gpu, accumulation = split_batch(total, workers, limits)
    batch = workers * per_gpu * (accumulation + 1.0)
    gradient_s = gradient_time_s(theta, per_gpu)
    step_s = accumulation * gradient_s + overlapped_s(
        gradient_s, sync_time_s(theta, nodes, workers), theta.gamma
    )
    rate = batch / step_s * efficiency(noise, limits.initial, batch)
    feasible = (per_gpu >= limits.per_gpu_min) & (per_gpu <= limits.per_gpu_max) & (asked >= 1)
    rate = np.where(feasible, rate, 0.0)
    best = np.argmax(rate, axis=-1)
    flat = np.arange(best.size) * _CANDIDATES + best.ravel()
    best_rate, best_per_gpu, best_accumulation = (
        a.reshape(-1)[flat].reshape(best.shape) for a in (rate, per_gpu, accumulation)
    )
    return BestBatch(best_rate, best_per_gpu.astype(np.int64), best_accumulation.astype(np.int64))


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

    @property
    def max_useful(self) -> int:
        """Beyond this some worker would get less than its smallest batch."""
        return self.limits.max_workers

    def theta(self, gpu_type: str) -> ThroughputParams[float]:
        """θ on that type; a type never seen borrows the first one known."""
        found = self.params.get(gpu_type)
        return found if found is not None else next(iter(self.params.values()))

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        """Goodput in samples per second with the best batch, for each allocation."""
        table: FloatArray = goodput_tables([self], nodes, workers, gpu_type).rate[0]
        return table

    def rate_of(self, batch: Batch, nodes: int, workers: int, gpu_type: str = "") -> float:
        """Goodput at a given batch."""
        theta = self.theta(gpu_type)
        gradient_s = theta.alpha_c + theta.beta_c * batch.per_gpu
        arrays = ThroughputParams(*(np.array(x) for x in theta))
        sync_s = sync_time_s(arrays, np.array(nodes), np.array(workers))
        last_s = overlapped_s(np.array(gradient_s), sync_s, arrays.gamma)
        total = batch.total(workers)
        worth = efficiency(np.array(self.noise), np.array(self.limits.initial), np.array(total))
        return float(total / (batch.accumulation * gradient_s + last_s) * worth)

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:
        """The batch that reaches ``rates``."""
        found = goodput_tables([self], np.array([nodes]), np.array([workers]), gpu_type)
        if found.rate[0, 0] <= 0.0:
            return None
        return Batch(int(found.per_gpu[0, 0]), int(found.accumulation[0, 0]))


def goodput_tables(
    models: Sequence[GoodputModel], nodes: IntArray, workers: IntArray, gpu_type: str = ""
) -> BestBatch:
    """Best batch and goodput of every model for every (nodes, workers) pair: arrays (models, pairs).

    ``nodes`` and ``workers`` are shared by all models (1-D) or given per model (2-D).
    """
    stacked = np.array([model.theta(gpu_type) for model in models], dtype=np.float64)
    theta = ThroughputParams(*stacked.T[:, :, None, None])
    noise = np.array([model.noise for model in models])[:, None, None]
    limits = BatchLimitArrays.of([model.limits for model in models])
    shape = (1, -1, 1) if nodes.ndim == 1 else (*nodes.shape, 1)
    as_float = nodes.astype(np.float64).reshape(shape), workers.astype(np.float64).reshape(shape)
    return best_batches(theta, noise, limits, *as_float)
