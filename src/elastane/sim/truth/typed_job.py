"""Simulates a job whose ground truth is measured profiles on several accelerator types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from elastane.cluster import Batch, Grant
from elastane.models.estimate import Estimate
from elastane.models.goodput import BatchLimits
from elastane.models.speed import FloatArray, IntArray
from elastane.sim.truth.measured_job import MeasuredJob, MeasuredSpeed
from elastane.sim.truth.measured_types import MeasuredTypes
from elastane.simcore.behaviour import Pace
from elastane.simcore.job_run import Profiled


@dataclass(frozen=True)
class TypedMeasuredJob(MeasuredJob):
    """Trains on each accelerator type as it was measured there; ``source`` is the reference for all else."""

    types: MeasuredTypes | None = None

    @classmethod
    def of(cls, types: MeasuredTypes, limits: BatchLimits, recorded: bool = False) -> TypedMeasuredJob:
        """Makes the job of an application measured on these types."""
        return cls(types.reference, limits, recorded, types=types)

    @cached_property
    def _on(self) -> dict[str, MeasuredJob]:
        assert self.types is not None
        return {
            kind: MeasuredJob(app, self.limits.on(kind), self.recorded) for kind, app in self.types.apps.items()
        }

    def on(self, gpu_type: str) -> MeasuredJob:
        """Returns the job as it is on one type; without a name, on the reference."""
        return self._on[gpu_type] if gpu_type else next(iter(self._on.values()))

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:
        """Returns the rate measured on that type, constant within an epoch; none where it was not measured."""
        if gpu_type not in self._on:
            return Pace(0.0, self.total_work)
        return self._on[gpu_type].pace(grant, gpu_type, batch, done)

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, MeasuredSpeed]:
        """Returns the true remaining work, and the true speed on every type."""
        used = limits or self.limits
        left, speed = super().oracle(done, used)
        assert isinstance(speed, MeasuredSpeed)
        on_types = {kind: replace(speed, job=job, limits=used.on(kind)) for kind, job in self._on.items()}
        return left, TypedMeasuredSpeed(speed.job, used, speed.worth, speed.epoch, on_types)

    def profile(self, sizes: int) -> tuple[Profiled, ...]:
        """Returns what short runs on one GPU of each type measure, at batches spread evenly over its memory."""
        assert self.types is not None
        noise = self.noise(self.source.initial, 0)
        found = []
        for kind, job in self._on.items():
            width = self.types.width_on(kind)
            low, high = job.limits.per_gpu_min, job.limits.per_gpu_max
            batches = {round(low * (high / low) ** (i / max(sizes - 1, 1))) for i in range(sizes)}
            for per_gpu in sorted(batches):
                step_s, sync_s = job.source.times_s((width,), per_gpu)
                found.append(Profiled(kind, width, per_gpu, step_s - sync_s, step_s, noise))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class TypedMeasuredSpeed(MeasuredSpeed):
    """The true speed on packed nodes of each type; for oracle policies."""

    on_types: dict[str, MeasuredSpeed]

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        """Returns the true work per second for packed placements on one type."""
        return self._of(gpu_type).rates(nodes, workers, gpu_type)

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:
        """Returns the fixed batch on that many workers, or the best of the measured ones."""
        return self._of(gpu_type).best_batch(nodes, workers, gpu_type)

    def _of(self, gpu_type: str) -> MeasuredSpeed:
        return self.on_types.get(gpu_type) or next(iter(self.on_types.values()))
