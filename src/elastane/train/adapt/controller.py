"""Everything one job adapts, in one object: what the training loop of a worker talks to.

Every worker has one and feeds it the same numbers, so that all have the same learning-rate factors.  Only the
leader asks for a new batch (``propose``); the loop sends it around and every worker takes it up (``adopt``) at
the same step.  It talks to no other worker itself and reads no clock but that of ``statistics``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from elastane.cluster import Batch
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.learning_rate import LearningRateRule, StepContext, default_rule
from elastane.models.noise import NoiseScale
from elastane.train.adapt.average import MovingAverage
from elastane.train.adapt.cabs import unscaled
from elastane.train.adapt.lr_factor import LearningRate
from elastane.train.adapt.memory_limit import MemoryLimit
from elastane.train.adapt.preconditioner import is_adaptive, reset_moments
from elastane.train.adapt.profile import StepProfile
from elastane.train.adapt.rules import BatchChoice, BatchSituation, CouplesLearningRate
from elastane.train.adapt.settings import AdaptationSettings
from elastane.train.adapt.statistics import GradientStatistics
from elastane.train.errors import TrainError
from elastane.train.reduce.gradients import GradientLayout

_LOSS_MEMORY = 0.95


class Adaptation:
    """The adapting part of one job on one worker.

    ``epoch`` and ``agreed`` are told by the loop on every worker: a newcomer's own statistics differ a little, so
    learning rates and progress follow the leader's noise.  ``reason`` says why the leader chose the last batch.
    """

    def __init__(
        self,
        settings: AdaptationSettings,
        layout: GradientLayout,
        optimizer: torch.optim.Optimizer,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.settings = settings
        self.statistics = GradientStatistics(layout, optimizer, settings.batch0, settings.budget, clock)
        self.profile = StepProfile()
        self.memory = MemoryLimit(settings.per_worker_max, settings.batch0)
        self.rule = settings.batch_rule()
        self.rate = LearningRate(unscaled, optimizer)
        self.agreed = NoiseScale(settings.batch0)
        self.epoch = 0.0
        self.reason = "first batch"
        self._named_rate_rule = settings.named_rate_rule()
        self._optimizer = optimizer
        self._clock = clock
        self._loss = MovingAverage(_LOSS_MEMORY)
        self._workers, self._nodes = 1, 1
        self._decided_s: float | None = None
        self._decided_for: tuple[int, int] | None = None
        self.batch = BatchChoice(settings.batch0, self.reason).shape(1, self.limits)

    @property
    def limits(self) -> BatchLimits:
        """What batches are allowed, as far as memory is known."""
        fits, least = self.memory.allowed(), self.settings.per_worker_min
        if fits < least:
            raise TrainError(f"per-worker minimum: {least} samples do not fit in memory, at most {fits} may")
        fixed = not self.settings.adaptive
        return BatchLimits(
            initial=self.settings.batch0,
            maximum=self.settings.maximum,
            per_gpu_min=least,
            per_gpu_max=fits,
            accumulate=self.settings.accumulate or fixed,
        )

    @property
    def total(self) -> int:
        """Samples of one step: shares are equal, but never hold more than the maximum together."""
        return min(self.batch.total(self._workers), self.settings.maximum)

    @property
    def scale(self) -> float:
        """S = M / M0; 1 in the modes that keep the owner's batch."""
        return self.total / self.settings.batch0 if self.settings.adaptive else 1.0

    @property
    def progress(self) -> float:
        """Steps at the owner's batch that the steps so far are worth."""
        return self.rate.progress

    def at_epoch(self, epoch: float) -> None:
        """Training has come to this epoch."""
        self.epoch = float(epoch)

    def agree(self, noise: NoiseScale) -> None:
        """Use the leader's estimate of the gradient noise, as every worker does."""
        self.agreed = noise

    def relayout(self, layout: GradientLayout) -> None:
        """Other parameters are trained from now on: their gradient noise is measured anew."""
        settings = self.settings
        self.statistics = GradientStatistics(
            layout, self._optimizer, settings.batch0, settings.budget, self._clock
        )
        self.agreed = NoiseScale(settings.batch0)

    def propose(self, workers: int, nodes: int, now_s: float, step: int = 0) -> Batch:
        """The batch the job should use (leader only); the current one unless it is time to decide anew.

        It is time every ``every_s`` seconds, after a resize, and when the last choice did not fit in memory.
        """
        resized = self._decided_for != (workers, nodes)
        due = self._decided_s is None or now_s - self._decided_s >= self.settings.every_s
        if not (resized or due):
            return self.batch
        self._decided_s, self._decided_for = now_s, (workers, nodes)
        situation = self._situation(workers, nodes, step)
        choice = self.rule.choose(situation)
        self.reason = choice.reason
        return choice.shape(workers, situation.limits)

    def untried(self, batch: Batch) -> bool:
        """Whether a batch is larger than anything that has fitted, so that it should be tried first."""
        return self.memory.declared is None and batch.per_gpu > self.memory.known

    def fitted(self, batch: Batch) -> None:
        """A batch that was tried fits; the next ``propose`` decides again."""
        self.memory.proven(batch.per_gpu)
        self._decided_s = None

    def did_not_fit(self, batch: Batch) -> None:
        """Memory ran out; the next ``propose`` decides again."""
        self.memory.refused(batch.per_gpu)
        self._decided_s = None

    def adopt(self, batch: Batch, workers: int, nodes: int) -> None:
        """Use this batch from the next step on; told to every worker, after a resize as well."""
        before = self.scale
        self.batch, self._workers, self._nodes = batch, workers, nodes
        self.profile.restart()
        self.statistics.restart()
        if self.settings.reset_moments and self.scale != before:
            reset_moments(self._optimizer)

    def observe_loss(self, loss: float) -> None:
        """The training loss of a step, the mean over all workers."""
        self._loss = self._loss.add(loss)

    def step_factors(self, samples: int | None = None) -> tuple[float, ...]:
        """The learning-rate factor of each parameter group for a step (of so many samples, if it is short)."""
        self.rate.use(self._rate_rule())
        return self.rate.factors(self._context(samples))

    @contextmanager
    def stepping(self, samples: int | None = None) -> Iterator[tuple[float, ...]]:
        """Around the real optimizer step: scales the rate, then counts the step's progress."""
        self.rate.use(self._rate_rule())
        context = self._context(samples)
        with self.rate.scaled(context) as factors:
            yield factors
        self.rate.advance(self.agreed.gain(context.scale))

    def hints(self) -> dict[str, Any]:
        """What a scheduler wants to know, as JSON values; None where nothing was measured yet."""
        noise, limits, model = self.statistics.noise, self.limits, self._model()
        measured = noise.count > 0
        rate = model.rate_of(self.batch, self._nodes, self._workers) if model is not None else None
        return {
            "noise": noise.phi if measured and math.isfinite(noise.phi) else None,
            "norm_sqr": sum(noise.sqr) / noise.weight if measured else None,
            "norm_var": sum(noise.var) / noise.weight if measured else None,
            "noise_samples": noise.count,
            "gain": noise.gain(self.scale),
            "efficiency": noise.efficiency(self.scale * self.settings.batch0),
            "goodput": rate,
            "throughput": model.theta("")._asdict() if model is not None else None,
            "max_profiled": max((workers for _, workers, _ in self.profile.table), default=0),
            "progress": self.progress,
            "rate_factor": self.rate.factor,
            "batch": {"total": self.total, "per_worker": self.batch.per_gpu, "extra": self.batch.accumulation},
            "limits": {
                "initial": limits.initial,
                "maximum": limits.maximum,
                "per_worker_min": limits.per_gpu_min,
                "per_worker_max": limits.per_gpu_max,
                "accumulate": limits.accumulate,
            },
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything learned, as JSON values; the batch itself is decided anew after a restart."""
        return {
            "statistics": self.statistics.state_dict(),
            "profile": self.profile.state_dict(),
            "memory": self.memory.state_dict(),
            "progress": self.rate.progress,
            "loss": self._loss.to_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        try:
            self.statistics.load_state_dict(state["statistics"])
            self.profile.load_state_dict(state["profile"])
            self.memory.load_state_dict(state["memory"])
            self.rate.resume(float(state["progress"]))
            self._loss = self._loss.restored(state["loss"])
        except (KeyError, TypeError, ValueError) as error:
            raise TrainError(f"this is not a saved state of adaptation: {error!r}") from error

    def _model(self) -> GoodputModel | None:
        return self.profile.model(self.limits, self.statistics.noise.phi)

    def _context(self, samples: int | None) -> StepContext:
        scale = self.scale
        if samples is not None and self.settings.adaptive:
            scale = samples / self.settings.batch0
        gains = self.agreed.group_gains(scale)
        return StepContext(scale, gains, self.progress, self.settings.epoch_steps)

    def _rate_rule(self) -> LearningRateRule:
        if not self.settings.adaptive:
            return unscaled
        if self._named_rate_rule is not None:
            return self._named_rate_rule
        if isinstance(self.rule, CouplesLearningRate):
            return self.rule.rate_rule(self.epoch)
        return default_rule(is_adaptive(self._optimizer))

    def _situation(self, workers: int, nodes: int, step: int) -> BatchSituation:
        return BatchSituation(
            workers=workers,
            nodes=nodes,
            current=self.batch,
            total=self.total,
            resized=workers != self._workers,
            limits=self.limits,
            noise=self.statistics.noise,
            epoch=self.epoch,
            step=step,
            progress=self.progress,
            model=self._model(),
            variance=self.statistics.variance.value,
            loss=self._loss.value,
            learning_rate=float(self._optimizer.param_groups[0]["lr"]),
        )
