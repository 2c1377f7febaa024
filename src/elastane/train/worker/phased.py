"""The loop of a job whose body makes several optimizer steps: a GAN's two, or one optimizer's several.

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
from typing import Any

from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import seed_all
from elastane.train.errors import MembershipChanged, TrainError
from elastane.train.reduce.gradients import GradientVector
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.digest import EVERY as DIGEST_EVERY
from elastane.train.worker.loop import Loop, LoopParts
from elastane.train.worker.phase_figures import GradientWitness, PhaseFigures
from elastane.train.worker.piggyback_table import Table
from elastane.train.worker.same_place import same_everywhere
from elastane.train.worker.step_cut import Feed

_ALIKE = "decide by data.steps, not by job.rank, a loss or a counter of your own"


class PhasedLoop(Loop):
    """The loop of a script that makes several optimizer steps per batch."""

    leave_by = "if data.steps >= n: break, at the top of the loop body, where no step is half made"

    def __init__(self, parts: LoopParts) -> None:
        super().__init__(parts)
        self.made: tuple[int, ...] = ()
        """The optimizers that have stepped for the present batch, by number, in order."""
        self._planned: tuple[int, tuple[int, ...], int] = (-1, (), 0)
        """Step, phases made and generation that the pending units are for."""
        self._sequence: tuple[int, ...] | None = None  # the calls of a whole body, once one has ended
        self._calls: list[int] = []
        self._running = False
        self._stale = False  # the rest of this body counts for nothing
        self._witness = GradientWitness()
        self._body_unit = 0
        self._figures = PhaseFigures()

    def _settle(self) -> None:
        """What each optimizer trains is looked at when it steps: scripts freeze one model to train another."""

    def _members_changed(self) -> None:
        """Tables of the phases made are of the old members."""
        super()._members_changed()
        self._figures.forget_tables()

    # Units.

    def _begin_reducers(self, again: bool) -> frozenset[int]:
        self._planned = self._place
        for gear in self.gears.all:
            gear.reducer.begin(self.shares, self.membership.rank, again)
            if not again:
                gear.layout.begin()
        return frozenset().union(*(gear.reducer.finished for gear in self.gears.all))

    @property
    def _place(self) -> tuple[int, tuple[int, ...], int]:
        return self.step, self.made, self.membership.generation

    def begin(self, feed: Feed) -> bool:
        """A new step, of which nothing is known yet."""
        self._sequence = None
        return super().begin(feed)

    def next_unit(self) -> tuple[int, int] | None:
        """The unit to run now; None when all phases of the step are made."""
        if self._running:
            self._body_over()
        if self.begun == self.step and self.made and self.made == self._sequence:
            self._end()
        if self.begun != self.step:
            self._pending.clear()
            return None
        if self._planned != self._place:
            self._replan()
        return self._give(self._pending.popleft())

    def _give(self, unit: int) -> tuple[int, int]:
        self._unit = self._body_unit = unit
        self._running, self._stale, self._calls, self.stepped = True, False, [], False
        self._witness.forget()
        self.position.arrive()
        self.turn += 1
        if self.settings.mode is Mode.CONSISTENT:
            self.gears.current.buffers.restore()
            seed_all(key_of(Purpose.UNIT, self.settings.seed, self.step, unit), self.membership.device)
        for gear in self.gears.all:
            gear.reducer.start(unit)
        return self._body_begins(unit)

    def _body_over(self) -> None:
        """The script's body has ended: all its calls are known."""
        self._running, self._unit = False, None
        self._body_ends()
        if self.begun != self.step:
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
        self._witness.refuse_old(self.gears.all[number].layout.parameters)
        self.stepped = False
        self._calls.append(number)
        if not self._stale and self._planned != self._place:
            self._overtaken()
        if self._stale:
            self.gears.all[number].layout.clear()
        elif len(self._calls) <= len(self.made):
            self._pass_by(number)
        else:
            self._finish_unit(number)
            self.stepped = not self._pending and self._complete_phase(number)
            self._stale = self._stale or not self.stepped
        self.recipe.clipping.forget()
        self._witness.look(p for gear in self.gears.all for p in gear.layout.parameters)
        return self.stepped

    def _pass_by(self, number: int) -> None:
        """A call that ended a phase which is made already: gradients are gone, and buffers as they were then."""
        self.last_unit = self._body_unit
        self.gears.all[number].layout.clear()
        self.gears.current.buffers.restore()

    def _finish_unit(self, number: int) -> None:
        unit, self._unit = self._body_unit, None
        self.last_unit = unit
        if self.gears.select(number):
            self.gears.current.reducer.begin(self.shares, self.membership.rank, False)
        gear = self.gears.current
        if number in self.recipe.sums:
            gear.layout.divide(self.shares.counts[unit])
        self._finish(gear, unit)

    # Phases.

    def _complete_phase(self, number: int) -> bool:
        self._completing = True
        complete = self._reduce_and_make(number)
        self._completing = False
        return complete

    def _reduce_and_make(self, number: int) -> bool:
        phase = len(self.made)
        while True:
            began, problem = time.perf_counter(), ""
            try:
                vector, table = self._reduce_phase(number)
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                self._applying = True
                self._apply_phase(number, vector, table)
                self._applying = False
                self.membership.doing("outside", self.step)
                self._figures.waited(time.perf_counter() - began)
                self._next_phase()
                return True
            self._recover(problem, time.perf_counter() - began)
            if self.step != self.begun or len(self.made) > phase:
                self._overtaken()
                return True
            self._replan()
            if self._pending:
                return False

    def _reduce_phase(self, number: int) -> tuple[GradientVector, Table]:
        gear = self.gears.all[number]
        self._meet(f"step {self.step}, {self.made}, {number}, {gear.trained.mark}")
        row = self.agreement.row(self.step, gear.layout, None, self._times.said())
        return self._exchange(gear, row)

    def _meet(self, place: str) -> None:
        """Workers must not meet in a reduction with vectors of different sizes, nor one step without the others."""
        self.membership.doing("waiting", self.step)
        if not same_everywhere(self.membership, place):
            raise TrainError(
                "workers do not step the same optimizers in the same order, or freeze different parameters: "
                f"{_ALIKE}"
            )

    def _apply_phase(self, number: int, vector: GradientVector, table: Table) -> None:
        gear = self.gears.all[number]
        if number in self.recipe.sums:
            vector.gradients.mul_(self.shares.total)
        elif self.recipe.accumulate > 1:
            vector.gradients.mul_(self.recipe.accumulate)
        self._updates.publish(number, gear, vector)
        self.recipe.raw_step(number)()
        gear.layout.clear()  # a second run of the body would not find them, either
        self.made = (*self.made, number)
        self.position.met()
        if self.step % DIGEST_EVERY == 0 and self.membership.world > 1:
            self._updates.compare(table, self.step)
        self.agreement.read(table, None, self._fits, self.step)
        self._figures.made(table, self._times.commit(self.host_tail.committed)[0])

    def _next_phase(self) -> None:
        """Make ready for what may come: this body goes on if that is as good as running all units again."""
        if self.settings.mode is Mode.CONSISTENT:
            seed_all(
                key_of(Purpose.UNIT, self.settings.seed, self.step, -1 - len(self.made)), self.membership.device
            )
        self._plan(again=False)
        self._times.unit_begins()
        if self.settings.mode is not Mode.CONSISTENT and len(self._pending) == 1:
            self._unit = self._body_unit = self._pending.popleft()
        else:
            self._stale = True

    def _overtaken(self) -> None:
        """Others are gone, or ahead: the rest of this body counts for nothing.

        Units are given out anew only when it has ended: figures that all still have to reduce are of the old ones.
        """
        self._stale = True
        self.position.fall_behind(self.step != self.begun or len(self.made) > len(self._planned[1]))

    def _replan(self) -> None:
        """Give out the units of the present phase anew, after the group has broken."""
        ahead = self._planned[1] != self.made
        if ahead:
            for (
                gear
            ) in self.gears.all:  # the collective that broke may still write into the memory it was given
                gear.reducer.begin(self.shares, self.membership.rank, True)
            self.reductions.keep(())
            self.last_unit = None
        self._plan(again=not ahead)

    # The end of a step.

    def _end(self) -> None:
        """All phases are made here: see that they are elsewhere, and let the data advance."""
        while self.step == self.begun:
            began, problem = time.perf_counter(), ""
            try:
                self._meet(f"step {self.step}, {self.made}, over")
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                self.position.met()
                self._close()
                return
            self._recover(problem, time.perf_counter() - began)
        self.position.fall_behind()

    def _close(self) -> None:
        samples = self.shares.total
        self._pending.clear()
        self.made = ()
        self.position.count_step()
        if self._feed is not None:
            self._feed.advance(samples)
        if self.settings.mode is Mode.CONSISTENT:
            seed_all(key_of(Purpose.UNIT, self.settings.seed, self.step, -1), self.membership.device)
        if self.adaptation is not None:
            self.adaptation.at_epoch(self.position.epoch)
            with self.adaptation.stepping(samples):
                pass
        self._figures.account(self.shares, self.membership, self.reporter, self.adaptation)

    def drop(self) -> None:
        """The script has left its loop: after whole steps that is the end of this one, otherwise it was not made."""
        self._body_ends()
        if not self._running or self.begun != self.step:
            self._running = False
            return
        self._running, self._unit = False, None
        begun = any(gear.reducer.finished for gear in self.gears.all)
        if self.made and self.made == tuple(self._calls):
            self._close()
            return
        self._left_inside = bool(self.made) or begun
        self._pending.clear()
        self.gears.current.buffers.restore()
        for gear in self.gears.all:
            gear.layout.clear()

    # What others ask.

    @property
    def half_done(self) -> bool:
        """Whether the last call of ``step()`` was not a whole step."""
        return self._running and not self.stepped

    @property
    def in_body(self) -> bool:
        """Whether the script is in a loop body."""
        return self._running

    @property
    def unit_open(self) -> bool:
        """Whether the script is in a body and has not called any ``step()``."""
        return self._running and not self._calls

    @property
    def step_due(self) -> bool:
        """With several optimizers ``step()`` is called for every batch."""
        return self._running

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands, within a step as well."""
        return {**super().state_dict(), "made": list(self.made)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        super().load_state_dict(state)
        made: Sequence[int] = state.get("made", ())
        self.made = tuple(int(number) for number in made)
