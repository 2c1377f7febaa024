"""An update makes of a reduced gradient: statistics, clipping, the real optimizer step, and news for followers."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from elastane.train.adapt.controller import Adaptation
from elastane.train.adapt.statistics import GradientStatistics, Scale
from elastane.train.errors import Diverged, MembershipChanged
from elastane.train.reduce.contract import Shares
from elastane.train.reduce.gradients import GradientVector
from elastane.train.reports.events import Diverged as DivergedEvent
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.membership import Membership
from elastane.train.worker.optimizer_setup import OptimizerSetup
from elastane.train.worker.piggyback_table import Column, Table
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.sparse_gradients import give_sparse
from elastane.train.worker.step_cut import LoopSettings
from elastane.train.worker.table_exchange import NoQuestion, Question
from elastane.train.worker.telemetry import Reporter


@dataclass(frozen=True, slots=True)
class NoiseQuestion:
    """Norms of the mean gradient, for the gradient noise."""

    statistics: GradientStatistics
    recipe: Recipe

    def ask(self, gradients: Tensor) -> Tensor | None:
        """None if this step is not measured."""
        return self.statistics.ask(gradients, self.recipe.loss_scale())

    def hear(self, rows: list[list[float]]) -> None:
        """The norms are here."""
        self.statistics.hear(rows)


@dataclass(slots=True)
class FiniteQuestion:
    """Whether a loss scaler will find a mean gradient finite: asked here, it costs no wait of its own."""

    recipe: Recipe
    others: Question
    _both: bool = False

    def ask(self, gradients: Tensor) -> Tensor | None:
        """A row with the largest absolute number, behind what others ask for."""
        self.recipe.take_finite()
        asked = self.others.ask(gradients)
        self._both = asked is not None
        largest = torch.linalg.vector_norm(gradients, float("inf")).view(1, 1)
        return (
            largest if asked is None else torch.cat([asked, largest.to(asked.dtype).expand(1, asked.shape[1])])
        )

    def hear(self, rows: list[list[float]]) -> None:
        """What the others asked for comes first."""
        *answers, (largest, *_) = rows
        self.recipe.found_finite(math.isfinite(largest))
        if self._both:
            self.others.hear(answers)


class Updates:
    """Makes the optimizer steps of one worker."""

    def __init__(
        self,
        settings: LoopSettings,
        recipe: Recipe,
        membership: Membership,
        state: TrainingState,
        reporter: Reporter,
    ) -> None:
        self._settings = settings
        self._recipe = recipe
        self._membership = membership
        self._state = state
        self._reporter = reporter

    def question(self, adaptation: Adaptation | None) -> Question:
        """What ``learn`` has to know of the mean gradient before it leaves its device."""
        noise: Question = NoQuestion()
        if adaptation is not None and self._settings.mode is not Mode.CONSISTENT:
            noise = NoiseQuestion(adaptation.statistics, self._recipe)
        return FiniteQuestion(self._recipe, noise) if self._recipe.scaled else noise

    def learn(
        self, vector: GradientVector, table: Table, shares: Shares, adaptation: Adaptation | None
    ) -> None:
        """Measure the gradient noise of a step, and agree with the leader's estimate of it."""
        if adaptation is None or self._settings.mode is Mode.CONSISTENT:
            return
        adaptation.agree(table.noise(adaptation.settings.batch0))
        statistics = adaptation.statistics
        if statistics.measuring:
            counts = [c for c in shares.counts if c]
            if self._membership.device.is_cpu:  # elsewhere it was asked for, and heard with the table
                statistics.total(vector.gradients, float(self._recipe.loss_scale()))
            statistics.finish(table.norms(), len(counts), shares.total, counts)
        statistics.set_stride(max(1, table.leader(Column.STRIDE)))

    def make(
        self,
        setup: OptimizerSetup,
        vector: GradientVector,
        samples: int,
        skipped: int,
        adaptation: Adaptation | None,
        step: int,
    ) -> None:
        """Make the optimizer step ``step`` with the mean over the samples that were not skipped (or their sum)."""
        recipe = self._recipe
        adapts = adaptation if self._settings.mode is Mode.ADAPTIVE else None
        summed = 0 in recipe.sums
        if skipped and (adapts is not None or not summed):
            vector.gradients.mul_(samples / (samples - skipped))
        if summed:
            # Where the batch adapts, learning rates follow it instead of the sum.
            vector.gradients.mul_(adapts.settings.batch0 if adapts is not None else samples)
        elif recipe.accumulate > 1:
            vector.gradients.mul_(recipe.accumulate)
        self.publish(0, setup, vector)
        self._step(setup, vector.gradients, samples - skipped, adaptation, step)

    def publish(self, number: int, setup: OptimizerSetup, vector: GradientVector) -> None:
        """Clip the mean gradient as the script asked, and make it what the optimizer sees."""
        recipe = self._recipe
        if number in recipe.norms:
            clip_norm(vector.gradients, recipe.norms[number] * recipe.loss_scale())
        recipe.clipping.apply(setup.layout, vector)
        setup.layout.publish(vector)
        give_sparse(setup.optimizer)

    def _step(
        self, setup: OptimizerSetup, gradient: Tensor, samples: int, adaptation: Adaptation | None, step: int
    ) -> None:
        m, optimizer, raw_step = self._membership, setup.optimizer, self._recipe.raw_step()
        m.yield_parameters()
        if adaptation is None:
            raw_step()
            m.applied(step, gradient, lambda: _settings_of(optimizer))
            return
        with adaptation.stepping(samples):
            settings = _settings_of(optimizer)
            raw_step()
        m.applied(step, gradient, lambda: settings)

    def compare(self, table: Table, step: int) -> None:
        """See whether replicas are still equal, by their digests; those that differ take over the leader's state."""
        different = table.diverging()
        if not different:
            return
        m = self._membership
        names = tuple(m.name_of(rank) for rank in different)
        if m.rank == 0:
            self._reporter.emit(DivergedEvent(self._reporter.wall(), step, names))
        if self._settings.mode is Mode.CONSISTENT:
            raise Diverged(f"the replicas of {', '.join(names)} differ from the others at step {step}")
        if m.group is not None:
            # A group that breaks here shows at the next step.
            with contextlib.suppress(MembershipChanged):
                self._state.share(m.group, 0)


def clip_norm(gradient: Tensor, limit: Scale) -> None:
    """Scale a gradient down to this norm, if it is longer."""
    norm = torch.linalg.vector_norm(gradient)
    gradient.mul_(torch.clamp(limit / (norm + 1e-6), max=1.0))


def _settings_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
