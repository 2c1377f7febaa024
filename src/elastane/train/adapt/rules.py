"""A batch rule decides the batch: an object with one method that a user can replace.

========  =====================================================================================
name      rule
========  =====================================================================================
fixed     the owner's batch, whatever the number of workers
pollux    the batch of the highest goodput (``elastane.models.goodput``), with hysteresis
adabatch  a schedule by epochs (``adabatch``)
cabs      the batch that the learning rate and the gradient variance ask for (``cabs``)
========  =====================================================================================

A rule is pure: it sees a ``BatchSituation`` and returns a ``BatchChoice``.  It does not measure, and it does
not care how samples are spread over workers unless it wants to.
Reference for Pollux: Qiao et al., OSDI 2021, section 3.2 and AdaptDL's 5 % hysteresis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from elastane.cluster import Batch
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.learning_rate import LearningRateRule
from elastane.models.noise import NoiseScale
from elastane.models.online import Learner, choose_batches


@dataclass(frozen=True, slots=True)
class BatchSituation:
    """What a rule may look at.

    ``current`` and ``total`` (samples of a step) are from before the decision; ``resized`` says that the
    workers have changed since.  ``limits.per_gpu_max`` is what memory allows as far as is known.  ``progress``
    counts steps at the owner's batch.  ``variance`` is tr(Σ), the trace of the covariance of one sample's
    gradient, and ``loss`` the training loss, both averaged over few steps; None before they were measured.
    """

    workers: int
    nodes: int
    current: Batch
    total: int
    limits: BatchLimits
    noise: NoiseScale
    resized: bool = False
    epoch: float = 0.0
    step: int = 0
    progress: float = 0.0
    model: GoodputModel | None = None
    variance: float | None = None
    loss: float | None = None
    learning_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """The total batch, or how it is split (samples per worker and pass, extra passes), and why."""

    batch: int | Batch
    reason: str

    def shape(self, workers: int, limits: BatchLimits) -> Batch:
        """The choice as samples per worker and extra passes, within the limits."""
        if isinstance(self.batch, Batch):
            return within(self.batch, workers, limits)
        return within(split(self.batch, workers, limits), workers, limits)


class BatchRule(Protocol):
    """Chooses the batch of a running job; called on the leader every few seconds and after every resize."""

    def choose(self, situation: BatchSituation) -> BatchChoice:
        """The batch from now on."""
        ...


@runtime_checkable
class CouplesLearningRate(Protocol):
    """A batch rule that brings its own learning-rate rule; the owner may still name another."""

    def rate_rule(self, epoch: float) -> LearningRateRule:
        """The learning-rate rule in that epoch; the same on all workers."""
        ...


def split(total: int, workers: int, limits: BatchLimits) -> Batch:
    """The smallest equal shares that hold ``total`` samples; the last ones may stay partly empty.

    One worker alone above M0 accumulates, since noise cannot be measured well from a single gradient.
    """
    passes = 1
    if limits.accumulate:
        alone = workers == 1 and total > limits.initial
        passes = max(math.ceil(total / (workers * limits.per_gpu_max)), 2 if alone else 1)
    per_worker = math.ceil(total / (workers * passes))
    return Batch(max(per_worker, limits.per_gpu_min), passes - 1)


def within(batch: Batch, workers: int, limits: BatchLimits) -> Batch:
    """The batch cut to what a worker may hold and what a step may need, but at least one sample a worker."""
    needed = math.ceil(limits.maximum / (workers * (batch.accumulation + 1)))
    return replace(batch, per_gpu=max(1, min(batch.per_gpu, limits.per_gpu_max, needed)))


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same total batch: the owner's, or ``total``."""

    total: int | None = None

    def choose(self, situation: BatchSituation) -> BatchChoice:
        """The batch from now on."""
        return BatchChoice(self.total or situation.limits.initial, "fixed")


@dataclass(frozen=True, slots=True)
class PolluxRule:
    """The batch of the highest goodput; one gaining less than ``min_gain`` over the current is not worth it.

    Before ``samples`` noise samples the noise scale is a guess, and the total batch stays what it is.
    """

    min_gain: float = 0.05
    samples: int = 20

    def choose(self, situation: BatchSituation) -> BatchChoice:
        """The batch from now on."""
        workers, limits = situation.workers, situation.limits
        current = situation.current if _feasible(situation) else None
        if situation.model is None or situation.noise.count < self.samples:
            return BatchChoice(current or max(situation.total, limits.initial), "not enough measured yet")
        known = _Known(situation.model)
        (batch,) = choose_batches([known], [(situation.nodes, workers)], [current], self.min_gain)
        if batch.total(workers) < limits.initial:
            return BatchChoice(limits.initial, "no batch within the limits divides evenly")
        if batch == current:
            return BatchChoice(batch, f"no other batch is {self.min_gain:.0%} better")
        rate = situation.model.rate_of(batch, situation.nodes, workers)
        return BatchChoice(batch, f"highest goodput, {rate:.4g} samples/s")


class _Known(Learner):
    """A learner that has nothing left to learn: it answers with a given model."""

    def __init__(self, model: GoodputModel) -> None:
        super().__init__(model.limits)
        self._given = model

    def model(self) -> GoodputModel:
        return self._given


def _feasible(situation: BatchSituation) -> bool:
    """Whether the current batch may go on: a resize or a lack of memory can forbid it."""
    limits, current = situation.limits, situation.current
    return (
        not situation.resized
        and current == within(current, situation.workers, limits)
        and current.per_gpu >= limits.per_gpu_min
        and current.total(situation.workers) >= limits.initial
        and (limits.accumulate or not current.accumulation)
    )
