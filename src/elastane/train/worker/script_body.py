"""``ScriptBody`` prepares each pass through the script's loop body, and takes away the gradients it leaves."""

from __future__ import annotations

from elastane.train.data.blocks import unit_spans
from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import seed_all
from elastane.train.reports.events import Warned
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.loss_guard import LossGuard
from elastane.train.worker.optimizer_setup import OptimizerSetup
from elastane.train.worker.step_parts import StepParts


class ScriptBody:
    """What is done before and behind each pass through the loop body of one worker."""

    def __init__(self, parts: StepParts) -> None:
        recipe = parts.recipe
        self._parts = parts
        self._consistent = parts.settings.mode is Mode.CONSISTENT
        self._loss_guard = LossGuard(
            lambda: (float(recipe.loss_scale()), float(recipe.accumulate)),
            self._warn,
            wanted=recipe.loss_unsaid,
        )

    def _warn(self, text: str) -> None:
        if self._parts.membership.rank == 0:
            self._parts.reporter.emit(Warned(self._parts.reporter.wall(), text))

    def seed(self, step: int, unit: int) -> None:
        """In consistent mode random numbers depend on the step and the unit only."""
        if self._consistent:
            device = self._parts.membership.device
            seed_all(key_of(Purpose.UNIT, self._parts.settings.seed, step, unit), device)

    def prepare(self, unit: int) -> None:
        """In consistent mode units begin alike, wherever they are computed: same buffers, same random numbers."""
        if self._consistent:
            self._parts.setups.current.buffers.restore()
            self.seed(self._parts.position.step, unit)

    def begins(self, unit: int) -> tuple[int, int]:
        """The script's loop body runs from here to ``opt.step()``, or until it leaves the loop."""
        parts, shares = self._parts, self._parts.units.shares
        parts.recipe.clipping.open()
        self._loss_guard.open(shares.counts[unit])
        parts.membership.doing("computing", parts.position.step)
        parts.times.unit_begins()
        offset, count = unit_spans(0, shares.counts)[unit]
        return (offset, count) if count else (0, 1)  # run on a sample that counts nothing

    def ends(self) -> None:
        """The script's loop body has ended, or has left the loop."""
        self._parts.setups.current.reducer.body_over()
        self._parts.recipe.clipping.close()
        self._loss_guard.close()

    def finish(self, setup: OptimizerSetup, unit: int) -> None:
        """Take a unit's gradients and buffers away."""
        setup.reducer.finish(unit)
        if unit == 0 or not self._consistent:
            setup.buffers.keep()
        self._parts.times.unit_ends()
