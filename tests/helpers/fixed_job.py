"""A job of a given length: what a trace that records only durations knows, and what hand-made schedules need.

One unit of work is one second on the requested workers.  There is no batch model and nothing to learn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastane.cluster import Batch, Grant
from elastane.errors import ElastaneError
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits
from elastane.models.speed import FloatArray, IntArray
from elastane.sim.truth.true_speed import TrueSpeed
from elastane.simcore.behaviour import Pace


@dataclass(frozen=True)
class FixedJob:
    """Takes ``duration_s`` on exactly ``workers``, wherever they stand.

    With ``linear`` any number of workers will do, and speed is proportional to it; otherwise a different
    number makes no progress at all.
    """

    duration_s: float
    workers: int = 1
    app: str = "fixed"
    linear: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.duration_s < float("inf") or self.workers < 1:
            raise ElastaneError(
                f"a fixed job needs a positive duration and a worker, not {self.duration_s} s x {self.workers}"
            )

    @property
    def limits(self) -> BatchLimits | None:
        """Returns None: its batch is not modelled."""
        return None

    @property
    def total_work(self) -> float:
        """The whole work, in seconds on the requested workers."""
        return self.duration_s

    def rate(self, workers: int) -> float:
        """Returns the work per second with so many workers."""
        if self.linear:
            return workers / self.workers
        return 1.0 if workers == self.workers else 0.0

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:
        """One rate from the beginning to the end."""
        rate = self.rate(grant.workers)
        step_s = 1.0 / rate if rate else 0.0
        return Pace(rate, self.total_work, gradient_s=step_s, step_s=step_s)

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, FixedSpeed]:
        """What is really left, and the real speed."""
        return Estimate(max(self.duration_s - done, 0.0), source=Provenance.ORACLE), FixedSpeed(self)

    def loss(self, done: float) -> float | None:
        """Returns None: a job of fixed length reports no loss."""
        return None


@dataclass(frozen=True)
class FixedSpeed(TrueSpeed):
    """The true speed of a fixed job."""

    job: FixedJob

    @property
    def max_useful(self) -> int:
        """The most workers it can use: those it asked for, or any number if ``linear``."""
        return np.iinfo(np.int32).max if self.job.linear else self.job.workers

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        """Work per second; nodes do not matter."""
        flat = np.ravel(workers)
        return np.array([self.job.rate(int(count)) for count in flat], dtype=np.float64)

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:
        """There is none to choose."""
        return None
