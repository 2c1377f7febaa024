"""``StepCommit`` makes the step of a reduced gradient, counts it, and takes in what all workers said with it."""

from __future__ import annotations

import os

from elastane.train.adapt.oom_trial import memory_besides, try_batch
from elastane.train.reduce.gradients import GradientVector
from elastane.train.transport_choice import TRANSPORT, wished
from elastane.train.worker.digest import EVERY as DIGEST_EVERY
from elastane.train.worker.piggyback_table import Table
from elastane.train.worker.script_body import ScriptBody
from elastane.train.worker.step_parts import StepParts
from elastane.train.worker.step_reduction import StepReduction
from elastane.train.worker.update import Updates


class StepCommit:
    """Applies the steps of one worker, of which each has one reduction."""

    def __init__(self, parts: StepParts, body: ScriptBody, reduction: StepReduction, updates: Updates) -> None:
        self._parts = parts
        self._body = body
        self._reduction = reduction
        self._updates = updates

    def apply(self, vector: GradientVector, table: Table, passes_s: list[float], sync_s: float) -> None:
        """Make the step, after passes of so many seconds and a reduction of ``sync_s``."""
        parts, skips, m = self._parts, self._parts.skips, self._parts.membership
        shares, made, adaptation = parts.units.shares, parts.units.begun + 1, parts.batching.adaptation
        samples = shares.total
        self._reduction.hear_ahead(table)
        skipped = skips.hear(table)
        if not skipped:
            self._updates.learn(vector, table, shares, adaptation)
        if not skips.behind:
            if skipped < samples:
                self._updates.make(parts.setups.current, vector, samples, skipped, adaptation, made)
            self._count(samples, nothing=skipped == samples)
        self._body.seed(made, -1)
        if (made - 1) % DIGEST_EVERY == 0 and m.world > 1 and skips.source is None:
            self._updates.compare(table, parts.position.step)
        parts.agreement.read(table, adaptation, self._fits, made)
        parts.reporter.account(table, shares, passes_s, sync_s, m, adaptation)

    def _count(self, samples: int, *, nothing: bool) -> None:
        """The step is over, whether the optimizer has stepped or there was nothing to step on."""
        self._parts.position.advance()
        self._parts.units.advance(samples, skipped=nothing)
        if nothing:
            self._parts.position.fall_behind()  # behind opt.step() nothing is to be done

    def _fits(self, samples: int) -> bool:
        """Whether so many samples fit into memory, tried with inputs that were really seen."""
        inputs, setup = self._parts.recipe.inputs, self._parts.setups.current
        if inputs is None:
            return True
        reserve = memory_besides(setup.layout.size, wished(os.environ.get(TRANSPORT)).communicator)
        return try_batch(setup.model, inputs, samples, reserve=reserve)
