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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import seed_all
from elastane.train.errors import MembershipChanged, TrainError
from elastane.train.reduce.gradients import GradientVector
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.digest import EVERY as DIGEST_EVERY
from elastane.train.worker.loop import Feed, Gear, Loop, clip_norm
from elastane.train.worker.membership import Change
from elastane.train.worker.piggyback_table import Table
from elastane.train.worker.same_place import same_everywhere
from elastane.train.worker.sparse_gradients import give_sparse

_ALIKE = "decide by data.steps, not by job.rank, a loss or a counter of your own"


class PhasedLoop(Loop):
    """A loop that is its base class until there is more than one optimizer step per batch."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.phased = False
        self.made: tuple[int, ...] = ()
        """The optimizers that have stepped for the present batch, by number, in order."""
        self.norms: dict[int, float] = {}
        """What the mean gradient of an optimizer is clipped to."""
        self.sums: set[int] = set()
        """Optimizers whose gradients are of losses that are sums over samples."""
        self._gears: list[Gear] = []
        self._raw_steps: list[Callable[[], None]] = []
        self._planned: tuple[int, tuple[int, ...], int] = (-1, (), 0)
        """Step, phases made and generation that the pending units are for."""
        self._sequence: tuple[int, ...] | None = None  # the calls of a whole body, once one has ended
        self._calls: list[int] = []
        self._running = False
        self._stale = False  # the rest of this body counts for nothing
        self._seen: dict[int, tuple[Tensor, int]] = {}  # gradients at the last call, by parameter
        self._body_unit = 0
        self._tables: list[Table] = []
        self._spent_s: list[float] = []
        self._synced_s = 0.0

    # Setting up.

    def enlist(self, raw_step: Callable[[], None]) -> int:
        """One more optimizer."""
        self._raw_steps.append(raw_step)
        self.phased = self.phased or len(self._raw_steps) > 1
        self.raw_step = self._raw_steps[0]
        if self.phased:
            self.leave_by = "if data.steps >= n: break, at the top of the loop body, where no step is half made"
        return len(self._raw_steps) - 1

    def attach(self, model: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
        """Gears for every optimizer."""
        super().attach(model, *optimizers)
        first = self._gear
        self._gears = [first, *(self._geared(model, each, first.buffers) for each in optimizers[1:])]

    @property
    def followable(self) -> bool:
        """Newcomers repeat the steps of one optimizer, not of several in turn: they join by a copy."""
        return not self.phased and super().followable

    def signature(self) -> Mapping[str, Any]:
        """What must be equal between workers; further optimizers by their kinds and sizes."""
        more = [
            [type(gear.optimizer).__name__, *(list(p.shape) for p in gear.layout.parameters)]
            for gear in self._gears[1:]
        ]
        return {**super().signature(), **({"more_optimizers": more} if more else {})}

    def _settle(self) -> None:
        """What each optimizer trains is looked at when it steps: scripts freeze one model to train another."""
        if not self.phased:
            super()._settle()

    def _selected(self, number: int) -> Gear:
        """The gear for what an optimizer trains now."""
        gear = self._gears[number]
        if gear.trained.still_true(gear.optimizer):
            return gear
        if gear.reducer.finished:
            raise TrainError(
                "parameters were frozen or unfrozen between two parts of one batch; do it at the same place for all"
            )
        self._gears[number] = gear = self._geared(gear.model, gear.optimizer, gear.buffers)
        gear.reducer.begin(self._shares, self.membership.rank, False)
        return gear

    # Units.

    def _begin_reducers(self, again: bool) -> frozenset[int]:
        if not self.phased:
            return super()._begin_reducers(again)
        self._planned = self._place
        for gear in self._gears:
            gear.reducer.begin(self._shares, self.membership.rank, again)
            if not again:
                gear.layout.begin()
        return frozenset().union(*(gear.reducer.finished for gear in self._gears))

    @property
    def _place(self) -> tuple[int, tuple[int, ...], int]:
        return self.step, self.made, self.membership.generation

    def begin(self, feed: Feed) -> bool:
        """A new step, of which nothing is known yet."""
        self._sequence = None
        return super().begin(feed)

    def next_unit(self) -> tuple[int, int] | None:
        """The unit to run now; None when all phases of the step are made."""
        if not self.phased:
            return super().next_unit()
        if self._running:
            self._body_over()
        if self._begun == self.step and self.made and self.made == self._sequence:
            self._end()
        if self._begun != self.step:
            self._pending.clear()
            return None
        if self._planned != self._place:
            self._replan()
        return self._give(self._pending.popleft())

    def _give(self, unit: int) -> tuple[int, int]:
        self._unit = self._body_unit = unit
        self._running, self._stale, self._calls, self._seen = True, False, [], {}
        self.stepped = self.catching_up = False
        self.turn += 1
        if self.settings.mode is Mode.CONSISTENT:
            self._gear.buffers.restore()
            seed_all(key_of(Purpose.UNIT, self.settings.seed, self.step, unit))
        for gear in self._gears:
            gear.reducer.start(unit)
        self._body_begins(self._shares.counts[unit])
        self.membership.doing("computing", self.step)
        self._unit_began = time.perf_counter()
        return self._span(unit)

    def _body_over(self) -> None:
        """The script's body has ended: all its calls are known."""
        self._running, self._unit = False, None
        self._body_ends()
        if self._begun != self.step:
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
        if not self.phased:
            return super().stepping(number)
        if not self._running:
            raise TrainError("opt.step() was called outside the loop over job.loader(...)")
        self._refuse_old_gradients(number)
        self.stepped = False
        self._calls.append(number)
        if not self._stale and self._planned != self._place:
            self._overtaken()
        if self._stale:
            self._gears[number].layout.clear()
        elif len(self._calls) <= len(self.made):
            self._pass_by(number)
        else:
            self._finish_unit(number)
            self.stepped = not self._pending and self._complete_phase(number)
            self._stale = self._stale or not self.stepped
        self.clipping.forget()
        self._seen = {id(p): (p.grad, p.grad._version) for p in self._parameters() if p.grad is not None}
        return self.stepped

    def _pass_by(self, number: int) -> None:
        """A call that ended a phase which is made already: gradients are gone, and buffers as they were then."""
        self.last_unit = self._body_unit
        self._gears[number].layout.clear()
        self._gear.buffers.restore()

    def _parameters(self) -> Iterator[nn.Parameter]:
        return (p for gear in self._gears for p in gear.layout.parameters)

    def _refuse_old_gradients(self, number: int) -> None:
        """A second run of the body would compute them from parameters that have changed meanwhile."""
        given = [(id(p), p.grad) for p in self._gears[number].layout.parameters if p.grad is not None]
        if given and all(_same(self._seen.get(key), gradient) for key, gradient in given):
            raise TrainError(
                "one backward() was followed by step() of two optimizers: that is one step; use one optimizer with two "
                "parameter groups, or et.Chained(first, second)"
            )

    def _finish_unit(self, number: int) -> None:
        unit, self._unit = self._body_unit, None
        self.last_unit = unit
        self._ready = gear = self._selected(number)
        if number in self.sums:
            gear.layout.divide(self._shares.counts[unit])
        gear.reducer.finish(unit)
        if unit == 0 or self.settings.mode is not Mode.CONSISTENT:
            gear.buffers.keep()
        self._passes.append(time.perf_counter() - self._unit_began)

    # Phases.

    def _complete_phase(self, number: int) -> bool:
        phase = len(self.made)
        while True:
            began, problem = time.perf_counter(), ""
            try:
                vector, table = self._reduce_phase(number)
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                self._apply_phase(number, vector, table)
                self._synced_s += time.perf_counter() - began
                self._next_phase()
                return True
            self.membership.recover(self, problem, time.perf_counter() - began)
            if self.step != self._begun or len(self.made) > phase:
                self._overtaken()
                return True
            self._replan()
            if self._pending:
                return False

    def _reduce_phase(self, number: int) -> tuple[GradientVector, Table]:
        gear = self._gears[number]
        self._meet(f"step {self.step}, {self.made}, {number}, {gear.trained.mark}")
        row = self.agreement.row(self.step, gear.layout, None, self._passes)
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
        gear = self._gears[number]
        if number in self.sums:
            vector.gradients.mul_(self._shares.total)
        elif self.accumulate > 1:
            vector.gradients.mul_(self.accumulate)
        if number in self.norms:
            clip_norm(vector.gradients, self.norms[number])
        self.clipping.apply(gear.layout, vector)
        gear.layout.publish(vector)
        give_sparse(gear.optimizer)
        self._raw_steps[number]()
        gear.layout.clear()  # a second run of the body would not find them, either
        self.made = (*self.made, number)
        self.tick += 1
        if self.step % DIGEST_EVERY == 0 and self.membership.world > 1:
            self._compare(table)
        self.agreement.read(table, None, self._fits, self.step)
        self._tables.append(table)
        self._spent_s += self._passes

    def _next_phase(self) -> None:
        """Make ready for what may come: this body goes on if that is as good as running all units again."""
        if self.settings.mode is Mode.CONSISTENT:
            seed_all(key_of(Purpose.UNIT, self.settings.seed, self.step, -1 - len(self.made)))
        self._plan(again=False)
        self._unit_began = time.perf_counter()
        if self.settings.mode is not Mode.CONSISTENT and len(self._pending) == 1:
            self._unit = self._body_unit = self._pending.popleft()
        else:
            self._stale = True

    def _overtaken(self) -> None:
        """Others are gone, or ahead: the rest of this body counts for nothing.

        Units are given out anew only when it has ended: figures that all still have to reduce are of the old ones.
        """
        self._stale = True
        self.catching_up = self.step != self._begun or len(self.made) > len(self._planned[1])

    def _replan(self) -> None:
        """Give out the units of the present phase anew, after the group has broken."""
        ahead = self._planned[1] != self.made
        if ahead:
            for gear in self._gears:  # the collective that broke may still write into the memory it was given
                gear.reducer.begin(self._shares, self.membership.rank, True)
            self.reductions.keep(())
            self.last_unit = None
        self._plan(again=not ahead)

    # The end of a step.

    def _end(self) -> None:
        """All phases are made here: see that they are elsewhere, and let the data advance."""
        while self.step == self._begun:
            began, problem = time.perf_counter(), ""
            try:
                self._meet(f"step {self.step}, {self.made}, over")
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                self.tick += 1
                self._close()
                return
            self.membership.recover(self, problem, time.perf_counter() - began)
        self.catching_up = True

    def _close(self) -> None:
        samples = self._shares.total
        self._pending.clear()
        self.made = ()
        self.step += 1
        if self._feed is not None:
            self._feed.advance(samples)
        if self.settings.mode is Mode.CONSISTENT:
            seed_all(key_of(Purpose.UNIT, self.settings.seed, self.step, -1))
        if self.adaptation is not None:
            self.adaptation.epoch = float(self.epoch)
            with self.adaptation.stepping(samples):
                pass
        self._account()

    def _account(self) -> None:
        m = self.membership
        tables = [table for table in self._tables if len(table.rows) == m.world]
        if tables:
            units = max(1, len([u for u in self._shares.owned_by(m.rank) if self._shares.counts[u]]))
            passes = [sum(self._spent_s) / units] * units
            self.reporter.account(
                Table.summed(tables), self._shares, passes, self._synced_s, m, self.adaptation
            )
        self._tables, self._spent_s, self._synced_s = [], [], 0.0

    def changed(self, change: Change) -> None:
        """Other members."""
        super().changed(change)
        self._tables = []

    def drop(self) -> None:
        """The script has left its loop: after whole steps that is the end of this one, otherwise it was not made."""
        if not self.phased:
            super().drop()
            return
        self._body_ends()
        if not self._running or self._begun != self.step:
            self._running = False
            return
        self._running, self._unit = False, None
        begun = any(gear.reducer.finished for gear in self._gears)
        if self.made and self.made == tuple(self._calls):
            self._close()
            return
        self._left_inside = bool(self.made) or begun
        self._pending.clear()
        self._gear.buffers.restore()
        for gear in self._gears:
            gear.layout.clear()

    # What others ask.

    @property
    def half_done(self) -> bool:
        """Whether the last call of ``step()`` was not a whole step."""
        return (self._running and not self.stepped) if self.phased else super().half_done

    @property
    def unit_open(self) -> bool:
        """Whether the script is in a body and has not called any ``step()``."""
        return (self._running and not self._calls) if self.phased else super().unit_open

    @property
    def step_due(self) -> bool:
        """With several optimizers ``step()`` is called for every batch."""
        return self._running if self.phased else super().step_due

    def state_dict(self) -> dict[str, Any]:
        """Position of the loop, within a step as well."""
        return {**super().state_dict(), "made": list(self.made)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go there."""
        super().load_state_dict(state)
        made: Sequence[int] = state.get("made", ())
        self.made = tuple(int(number) for number in made)


def _same(seen: tuple[Tensor, int] | None, gradient: Tensor) -> bool:
    return seen is not None and seen[0] is gradient and seen[1] == gradient._version
