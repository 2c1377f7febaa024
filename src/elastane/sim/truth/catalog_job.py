"""A job whose truth is the built-in catalog: Pollux's model with the fitted parameters as reality."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from elastane.cluster import Batch, Grant
from elastane.models.catalog import CatalogApp
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.speed import FloatArray
from elastane.models.stopping import StopRule
from elastane.models.throughput import times_s
from elastane.sim.truth.made_up_loss import reported_losses, stop_rule
from elastane.simcore.behaviour import Pace

_SEGMENTS = 50
"""Gradient noise drifts; it is taken as constant within each of this many equal parts of the work."""

_REPORTS = tuple((segment + 1) / _SEGMENTS for segment in range(_SEGMENTS))
"""Parts of the work after which a loss is reported, where one is."""


@dataclass(frozen=True)
class CatalogJob:
    """Trains as the catalog says; ``scale`` multiplies the application's work.

    With a ``loss_seed`` it reports losses, which are made up; without one it reports none.
    """

    source: CatalogApp
    limits: BatchLimits
    scale: float = 1.0
    loss_seed: int | None = None

    @property
    def app(self) -> str:
        """The name of the catalog application."""
        return self.source.name

    @property
    def total_work(self) -> float:
        """Samples at M0 from start to end."""
        return self.source.total_work * self.scale

    def _segment(self, done: float) -> int:
        # The small addition keeps a job that stands exactly on a border from staying before it.
        return min(int(done / self.total_work * _SEGMENTS + 1e-9), _SEGMENTS - 1)

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:
        """The modelled rate, constant within a segment."""
        assert batch is not None
        segment = self._segment(done)
        shape = grant.shape
        workers = sum(shape)
        theta = self.source.params[gpu_type]
        gradient_s, step_s = times_s(theta, len(shape), workers, batch.per_gpu)
        noise = _segment_noise(self.source, segment)
        total = batch.total(workers)
        worth = (noise + self.limits.initial) / (noise + total)
        return Pace(
            rate=total * worth / (batch.accumulation * gradient_s + step_s),
            until_work=self.total_work * (segment + 1) / _SEGMENTS,
            efficiency=worth,
            gradient_s=gradient_s,
            step_s=step_s,
            noise=noise,
        )

    @cached_property
    def _losses(self) -> FloatArray:
        assert self.loss_seed is not None
        return reported_losses(self.app, _REPORTS, self.loss_seed)

    def loss(self, done: float) -> float | None:
        """Returns the loss that the last finished segment reported; None before the first, or without losses."""
        finished = int(done / self.total_work * _SEGMENTS + 1e-9)
        if self.loss_seed is None or not finished:
            return None
        return float(self._losses[min(finished, _SEGMENTS) - 1])

    @property
    def stop(self) -> StopRule:
        """The loss rule by which its owner would end it in place of counting epochs."""
        return stop_rule(self.app, self.total_work, _REPORTS[0])

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, GoodputModel]:
        """Returns the true remaining work and the true goodput, for oracle policies."""
        used = limits or self.limits
        left = Estimate(self.total_work - done, source=Provenance.ORACLE)
        return left, _oracle_model(self.source, used, self._segment(done))


@lru_cache(maxsize=4096)
def _segment_noise(source: CatalogApp, segment: int) -> float:
    return source.noise_at((segment + 0.5) / _SEGMENTS)


@lru_cache(maxsize=65536)
def _oracle_model(source: CatalogApp, limits: BatchLimits, segment: int) -> GoodputModel:
    """Makes a model that all jobs in the same state share, so that tables computed from it are shared too."""
    return GoodputModel(
        params=dict(source.params),
        noise=_segment_noise(source, segment),
        limits=limits,
        max_profiled=limits.max_workers,
        source=Provenance.ORACLE,
    )
