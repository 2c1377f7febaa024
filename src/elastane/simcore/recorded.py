"""A job that has already run once: it trains as fast as was measured then."""

from __future__ import annotations

from dataclasses import dataclass

from elastane.cluster import Batch, Grant
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import times_s
from elastane.simcore.behaviour import Pace


@dataclass(frozen=True)
class RecordedJob:
    """Its fitted speed is taken for the truth, its last gradient noise for that of the whole run.

    ``overhead`` is how much longer it trained than its steps took: evaluations, loading, saving.
    """

    app: str
    model: GoodputModel
    total_work: float
    overhead: float = 1.0

    @property
    def limits(self) -> BatchLimits:
        """The batches that the job may use, as its fitted model has them."""
        return self.model.limits

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:  # noqa: ARG002
        """The modelled rate, the same from beginning to end."""
        assert batch is not None
        shape = grant.shape
        workers, noise, first = sum(shape), self.model.noise, self.limits.initial
        gradient_s, step_s = times_s(self.model.theta(gpu_type), len(shape), workers, batch.per_gpu)
        total = self.limits.fixed or batch.total(workers)
        worth = (1.0 + first / noise) / (1.0 + total / noise) if noise > 0 else first / total
        return Pace(
            rate=total * worth / (batch.accumulation * gradient_s + step_s) / self.overhead,
            until_work=self.total_work,
            efficiency=worth,
            gradient_s=gradient_s,
            step_s=step_s,
            noise=noise if noise < float("inf") else None,
        )

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, GoodputModel]:  # noqa: ARG002
        """What was really left, and the speed."""
        return Estimate(max(self.total_work - done, 0.0), source=Provenance.ORACLE), self.model

    def loss(self, done: float) -> float | None:  # noqa: ARG002
        """Returns None: a recorded job has no loss curve."""
        return None


@dataclass(frozen=True)
class RecordedCommand:
    """A job of which only its time is known: so many seconds at full speed, with the workers it had."""

    app: str
    total_work: float

    @property
    def limits(self) -> BatchLimits | None:
        """Its batch is not modelled."""
        return None

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:  # noqa: ARG002
        """A second of work in each second."""
        return Pace(1.0, self.total_work, gradient_s=1.0, step_s=1.0)

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, GoodputModel]:
        """Nobody may ask: what it would do with other workers was never seen."""
        raise NotImplementedError("a recorded command has no model of its speed")

    def loss(self, done: float) -> float | None:  # noqa: ARG002
        """Returns None: a recorded job has no loss curve."""
        return None
