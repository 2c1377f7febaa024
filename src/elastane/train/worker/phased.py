"""``PhasedSteps`` makes the steps of a body with several optimizer steps: a GAN's two, or one optimizer's several.

A step (one batch of the loader) then has *phases*: phase p ends at the body's p-th call of ``step()``, whosever
optimizer that is.  The gradients of a phase are reduced over the layout of its optimizer, and the optimizer steps.

Where a worker has one unit, its body simply goes on to the next phase.  Otherwise the units are run again for each
phase: calls that end phases already made do nothing, the call of the present phase ends the unit, later ones are
left for another run.  In consistent mode units are always run again, so that the bits do not depend on who has how
many.  How many phases a step has is known when its first body ends, and must be the same for all units and workers.

What was made of a step (``made``) is part of the state: when the group breaks between two phases, the others go on
in the phase they had come to.  Data advance, and members change, after the last phase only.  A job with one
optimizer that steps once takes none of these ways.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from elastane.train.errors import MembershipChanged, TrainError
from elastane.train.reduce.gradients import GradientVector
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.digest import EVERY as DIGEST_EVERY
from elastane.train.worker.phase_figures import GradientWitness, PhaseFigures
from elastane.train.worker.piggyback_table import Table
from elastane.train.worker.same_place import same_everywhere
from elastane.train.worker.step_parts import StepParts
from elastane.train.worker.steps import StepTools

_ALIKE = "decide by data.steps, not by job.rank, a loss or a counter of your own"


class PhasedSteps:
    """The steps of one worker whose script makes several optimizer steps per batch."""

    leave_by: ClassVar[str] = (
        "if data.steps >= n: break, at the top of the loop body, where no step is half made"
    )
    """How a script may leave a loop over a loader."""

    def __init__(self, parts: StepParts, tools: StepTools) -> None:
        self.completing = self.applying = False
        self.made: tuple[int, ...] = ()
        """The optimizers that have stepped for the present batch, by number, in order."""
        self._parts = parts
        self._tools = tools
        self._units = parts.units
        self._setups = parts.setups
        self._consistent = parts.settings.mode is Mode.CONSISTENT
        self._planned: tuple[int, tuple[int, ...], int] = (-1, (), 0)
        """Step, phases made and generation that the pending units are for."""
        self._sequence: tuple[int, ...] | None = None  # the calls of a whole body, once one has ended
        self._calls: list[int] = []
        self._running = False
        self._stale = False  # the rest of this body counts for nothing
        self._witness = GradientWitness()
        self._body_unit = 0
        self._figures = PhaseFigures()

    def settle(self) -> None:
        """What each optimizer trains is looked at when it steps: scripts freeze one model to train another."""

    def members_changed(self) -> None:
        """Tables of the phases made are of the old members."""
        self._figures.forget_tables()

    # Units.

    def _begin_reducers(self, again: bool) -> frozenset[int]:
        self._planned = self._place
        for setup in self._setups.all:
            setup.reducer.begin(self._units.shares, self._parts.membership.rank, again)
            if not again:
                setup.layout.begin()
        return frozenset().union(*(setup.reducer.finished for setup in self._setups.all))

    @property
    def _place(self) -> tuple[int, tuple[int, ...], int]:
        return self._parts.position.step, self.made, self._parts.membership.generation

    @property
    def _over(self) -> bool:
        """Whether the step whose units were given out is complete."""
        return self._units.begun != self._parts.position.step

    def begin(self) -> None:
        """Plan a new step, of which nothing is known yet."""
        self._sequence = None
        self._plan(again=False)

    def _plan(self, *, again: bool) -> None:
        self._tools.plan.make(self._begin_reducers, again=again)

    def next_unit(self) -> tuple[int, int] | None:
        """The unit to run now; None when all phases of the step are made."""
        if self._running:
            self._body_over()
        if not self._over and self.made and self.made == self._sequence:
            self._end()
        if self._over:
            self._units.clear()
            return None
        if self._planned != self._place:
            self._replan()
        return self._give(self._units.next())

    def _give(self, unit: int) -> tuple[int, int]:
        self._body_unit = unit
        self._running, self._stale, self._calls = True, False, []
        self._units.answer(False)
        self._witness.forget()
        self._parts.position.arrive()
        self._tools.body.prepare(unit)
        for setup in self._setups.all:
            setup.reducer.start(unit)
        return self._tools.body.begins(unit)

    def _body_over(self) -> None:
        """The script's body has ended: all its calls are known."""
        self._running = False
        self._units.leave()
        self._tools.body.ends()
        if self._over:
            return
        calls = tuple(self._calls)
        if not calls:
            raise TrainError(
                "the loop body ended without step() of any optimizer: with several optimizers every batch needs one, "
                "also with job.accumulate(n), where only the last of n makes a step"
            )
        if self._sequence is None:
            self._sequence = calls
        if calls != self._sequence or calls[: len(self.made)] != self.made:
            raise TrainError(f"parts of one batch do not step the same optimizers in the same order: {_ALIKE}")

    def stepping(self, number: int) -> bool:
        """The body has called ``step()`` of an optimizer; True if that was a real step."""
        if not self._running:
            raise TrainError("opt.step() was called outside the loop over job.loader(...)")
        self._witness.refuse_old(self._setups.all[number].layout.parameters)
        self._units.answer(False)
        self._units.step_called()
        self._calls.append(number)
        if not self._stale and self._planned != self._place:
            self._overtaken()
        if self._stale:
            self._setups.all[number].layout.clear()
        elif len(self._calls) <= len(self.made):
            self._pass_by(number)
        else:
            self._finish_unit(number)
            self._units.answer(not self._units.left and self._complete_phase(number))
            self._stale = self._stale or not self._units.stepped
        self._parts.recipe.clipping.forget()
        self._witness.look(p for setup in self._setups.all for p in setup.layout.parameters)
        return self._units.stepped

    def _pass_by(self, number: int) -> None:
        """A call that ended a phase which is made already: gradients are gone, and buffers as they were then."""
        self._units.pass_by(self._body_unit)
        self._setups.all[number].layout.clear()
        self._setups.current.buffers.restore()

    def _finish_unit(self, number: int) -> None:
        unit, shares = self._body_unit, self._units.shares
        self._units.end(unit)
        if self._setups.select(number):
            self._setups.current.reducer.begin(shares, self._parts.membership.rank, False)
        setup = self._setups.current
        if number in self._parts.recipe.sums:
            setup.layout.divide(shares.counts[unit])
        self._tools.body.finish(setup, unit)

    # Phases.

    def _complete_phase(self, number: int) -> bool:
        self.completing = True
        complete = self._reduce_and_make(number)
        self.completing = False
        return complete

    def _reduce_and_make(self, number: int) -> bool:
        phase, parts = len(self.made), self._parts
        while True:
            began, problem = time.perf_counter(), ""
            try:
                vector, table = self._reduce_phase(number)
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                self.applying = True
                self._apply_phase(number, vector, table)
                self.applying = False
                parts.membership.doing("outside", parts.position.step)
                self._figures.waited(time.perf_counter() - began)
                self._next_phase()
                return True
            parts.membership.recover(self._tools.crew, problem, time.perf_counter() - began)
            if self._over or len(self.made) > phase:
                self._overtaken()
                return True
            self._replan()
            if self._units.left:
                return False

    def _reduce_phase(self, number: int) -> tuple[GradientVector, Table]:
        setup, step = self._setups.all[number], self._parts.position.step
        self._meet(f"step {step}, {self.made}, {number}, {setup.trained.mark}")
        row = self._parts.agreement.row(step, setup.layout, None, self._parts.times.said())
        return self._tools.reduction.exchange(setup, row)

    def _meet(self, place: str) -> None:
        """Workers must not meet in a reduction with vectors of different sizes, nor one step without the others."""
        m = self._parts.membership
        m.doing("waiting", self._parts.position.step)
        if not same_everywhere(m, place):
            raise TrainError(
                "workers do not step the same optimizers in the same order, or freeze different parameters: "
                f"{_ALIKE}"
            )

    def _apply_phase(self, number: int, vector: GradientVector, table: Table) -> None:
        setup, parts, recipe = self._setups.all[number], self._parts, self._parts.recipe
        step = parts.position.step
        if number in recipe.sums:
            vector.gradients.mul_(self._units.shares.total)
        elif recipe.accumulate > 1:
            vector.gradients.mul_(recipe.accumulate)
        self._tools.updates.publish(number, setup, vector)
        recipe.raw_step(number)()
        setup.layout.clear()  # a second run of the body would not find them, either
        self.made = (*self.made, number)
        parts.position.met()
        if step % DIGEST_EVERY == 0 and parts.membership.world > 1:
            self._tools.updates.compare(table, step)
        parts.agreement.read(table, None, lambda _: True, step)  # without adaptation no batch is tried
        self._figures.made(table, parts.times.commit(parts.host_tail.committed)[0])

    def _next_phase(self) -> None:
        """Make ready for what may come: this body goes on if that is as good as running all units again."""
        self._tools.body.seed(self._parts.position.step, -1 - len(self.made))
        self._plan(again=False)
        self._parts.times.unit_begins()
        if not self._consistent and self._units.left == 1:
            self._body_unit = self._units.go_on()
        else:
            self._stale = True

    def _overtaken(self) -> None:
        """Others are gone, or ahead: the rest of this body counts for nothing.

        Units are given out anew only when it has ended: figures that all still have to reduce are of the old ones.
        """
        self._stale = True
        self._parts.position.fall_behind(self._over or len(self.made) > len(self._planned[1]))

    def _replan(self) -> None:
        """Give out the units of the present phase anew, after the group has broken."""
        ahead = self._planned[1] != self.made
        if ahead:
            # The collective that broke may still write into the memory it was given.
            for setup in self._setups.all:
                setup.reducer.begin(self._units.shares, self._parts.membership.rank, True)
            self._tools.plan.forget()
        self._plan(again=not ahead)

    # The end of a step.

    def _end(self) -> None:
        """All phases are made here: see that they are elsewhere, and let the data advance."""
        m, position = self._parts.membership, self._parts.position
        while not self._over:
            began, problem = time.perf_counter(), ""
            try:
                self._meet(f"step {position.step}, {self.made}, over")
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                position.met()
                self._close()
                return
            m.recover(self._tools.crew, problem, time.perf_counter() - began)
        position.fall_behind()

    def _close(self) -> None:
        parts, units, adaptation = self._parts, self._units, self._parts.batching.adaptation
        samples = units.shares.total
        units.clear()
        self.made = ()
        parts.position.count_step()
        units.advance(samples)
        self._tools.body.seed(parts.position.step, -1)
        if adaptation is not None:
            adaptation.at_epoch(parts.position.epoch)
            with adaptation.stepping(samples):
                pass
        self._figures.account(units.shares, parts.membership, parts.reporter, adaptation)

    def drop(self) -> None:
        """The script has left its loop: after whole steps that is the end of this one, otherwise it was not made."""
        self._tools.body.ends()
        running, self._running = self._running, False
        if not running or self._over:
            return
        self._units.leave()
        begun = any(setup.reducer.finished for setup in self._setups.all)
        if self.made and self.made == tuple(self._calls):
            self._close()
            return
        self._units.abandon(inside=bool(self.made) or begun)
        self._setups.current.buffers.restore()
        for setup in self._setups.all:
            setup.layout.clear()

    # What others ask.

    @property
    def half_done(self) -> bool:
        """Whether the last call of ``step()`` was not a whole step."""
        return self._running and not self._units.stepped

    @property
    def in_body(self) -> bool:
        """Whether the script is in a loop body."""
        return self._running

    @property
    def step_due(self) -> bool:
        """With several optimizers ``step()`` is called for every batch."""
        return self._running

    def state_dict(self) -> dict[str, Any]:
        """The phases that were made of the step under way."""
        return {"made": list(self.made)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        made: Sequence[int] = state.get("made", ())
        self.made = tuple(int(number) for number in made)
