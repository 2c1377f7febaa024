"""Simulates a job whose ground truth is a directory of measured profiles."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from elastane.cluster import Batch, Grant
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits, split_one
from elastane.models.online import first_batch
from elastane.models.speed import FloatArray, IntArray
from elastane.models.stopping import StopRule
from elastane.sim.truth.made_up_loss import reported_losses, stop_rule
from elastane.sim.truth.measured import MeasuredApp
from elastane.sim.truth.true_speed import TrueSpeed
from elastane.simcore.behaviour import Pace


@dataclass(frozen=True)
class MeasuredJob:
    """Trains as measured.  ``recorded`` takes gradient noise as the published simulators do.

    With a ``loss_seed`` it reports losses, which are made up; without one it reports none.
    """

    source: MeasuredApp
    limits: BatchLimits
    recorded: bool = False
    loss_seed: int | None = None

    @property
    def app(self) -> str:
        """The name of the measured application."""
        return self.source.name

    @cached_property
    def total_work(self) -> float:
        """The work to the end of the last epoch, in samples at M0."""
        return self.source.boundaries[-1]

    def noise(self, batch: int, epoch: int) -> float:
        """Returns φ, in samples, during an epoch."""
        if self.recorded:
            return self.source.recorded_noise(batch, epoch)
        return float(self.source.solved_noise[epoch])

    def efficiency(self, batch: int, epoch: int) -> float:
        """Returns the progress per sample relative to one at M0."""
        noise = self.noise(batch, epoch)
        return (noise + self.source.initial) / (noise + batch) if np.isfinite(noise) else 1.0

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:  # noqa: ARG002
        """The measured rate, constant within an epoch."""
        assert batch is not None
        epoch = self.source.epoch_of(done)
        shape = grant.shape
        step_s, sync_s = self.source.times_s(shape, batch.per_gpu)
        total = batch.total(sum(shape))
        worth = self.efficiency(total, epoch)
        seconds = step_s + (step_s - sync_s) * batch.accumulation
        return Pace(
            rate=total * worth / seconds,
            until_work=self.source.boundaries[epoch],
            efficiency=worth,
            gradient_s=step_s - sync_s,
            step_s=step_s,
            noise=self.noise(total, epoch),
        )

    @cached_property
    def _reports(self) -> tuple[float, ...]:
        return tuple(border / self.total_work for border in self.source.boundaries)

    @cached_property
    def _losses(self) -> FloatArray:
        assert self.loss_seed is not None
        return reported_losses(self.app, self._reports, self.loss_seed)

    def loss(self, done: float) -> float | None:
        """Returns the loss that the last finished epoch reported; None before the first, or without losses."""
        finished = bisect_right(self.source.boundaries, done * (1.0 + 1e-12))
        return float(self._losses[finished - 1]) if self.loss_seed is not None and finished else None

    @property
    def stop(self) -> StopRule:
        """The loss rule by which its owner would end it in place of counting epochs."""
        return stop_rule(self.app, self.total_work, self._reports[0])

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, MeasuredSpeed]:
        """Returns the true remaining work and speed, for oracle policies.

        As published, remaining work is counted in iterations from the last finished epoch; it is expressed in
        samples at the present efficiency so that work ÷ speed is that many iterations times the true step time.
        """
        used = limits or self.limits
        epoch = self.source.epoch_of(done)
        batch = used.fixed or used.initial
        worth = self.efficiency(batch, epoch)
        last = self.source.epochs - 1
        if self.recorded:
            left = self.source.iterations(batch, last) - self.source.iterations(batch, epoch)
            work = max(left, 1.0) * batch * worth
        else:
            work = self.total_work - done
        return Estimate(work, source=Provenance.ORACLE), MeasuredSpeed(self, used, worth, epoch)


@dataclass(frozen=True, eq=False)
class MeasuredSpeed(TrueSpeed):
    """The true speed on packed nodes, at the fixed batch or the best of the measured ones; for oracle policies."""

    job: MeasuredJob
    limits: BatchLimits
    worth: float
    epoch: int

    @property
    def max_useful(self) -> int:
        """The most workers that each get at least the smallest batch per GPU."""
        return self.limits.max_workers

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:  # noqa: ARG002
        """Returns the true work per second for packed placements, in samples at M0."""
        if self.limits.fixed is None:
            return np.array([self._best(int(k))[0] for k in np.ravel(workers)])
        largest = 1 << int(np.max(workers, initial=0)).bit_length()  # few different tables
        found = _throughputs(self.job.source, self.limits, largest, self.job.recorded)
        return self.worth * found[np.ravel(workers)]

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:  # noqa: ARG002
        """Returns the fixed batch on that many workers, or the best of the measured ones."""
        return first_batch(self.limits, workers) if self.limits.fixed else self._best(workers)[1]

    def _best(self, workers: int) -> tuple[float, Batch | None]:
        best: tuple[float, Batch | None] = (0.0, None)
        for total in self.job.source.validation if workers > 0 else ():
            if total < self.limits.per_gpu_min * workers:
                continue
            batch = split_one(total, workers, self.limits)
            step_s, sync_s = self.job.source.times_s(_packed(self.job.source, workers), batch.per_gpu)
            samples = batch.total(workers)
            rate = samples / (step_s + (step_s - sync_s) * batch.accumulation)
            rate *= self.job.efficiency(samples, self.epoch)
            if rate > best[0]:
                best = (rate, batch)
        return best


def _packed(source: MeasuredApp, workers: int) -> tuple[int, ...]:
    full, rest = divmod(workers, source.gpus_per_node)
    return (source.gpus_per_node,) * full + ((rest,) if rest else ())


@lru_cache(maxsize=4096)
def _throughputs(source: MeasuredApp, limits: BatchLimits, largest: int, nominal: bool) -> FloatArray:
    """Returns samples per second at the owner's batch on 0 … ``largest`` packed workers; cached, read every round."""
    out = np.zeros(largest + 1)
    for workers in range(1, min(largest, limits.max_workers) + 1):
        batch = first_batch(limits, workers)
        step_s, sync_s = source.times_s(_packed(source, workers), batch.per_gpu)
        # The published oracle counts iterations of the nominal batch, whatever rounding makes of it.
        samples = limits.fixed if nominal and limits.fixed else batch.total(workers)
        out[workers] = samples / (step_s + (step_s - sync_s) * batch.accumulation)
    return out
