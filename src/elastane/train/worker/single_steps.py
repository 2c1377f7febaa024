"""``SingleSteps`` makes the steps of a script that calls ``opt.step()`` once per batch.

Each owned unit is one pass through the script's loop body.  The body's ``opt.step()`` ends the unit; after the last
one the gradients of all workers are reduced and the real optimizer step is made.  If the group breaks meanwhile, the
members re-form and the loop body simply gets more units of the same step.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from elastane.train.errors import MembershipChanged, TrainError
from elastane.train.worker.crew import OTHERS_TRAINED
from elastane.train.worker.step_parts import StepParts
from elastane.train.worker.steps import StepTools


class SingleSteps:
    """The steps of one worker, each with one reduction."""

    leave_by: ClassVar[str] = "if data.steps >= n: break"
    """How a script may leave a loop over a loader."""

    def __init__(self, parts: StepParts, tools: StepTools) -> None:
        self.completing = self.applying = False
        self._parts = parts
        self._tools = tools
        self._units = parts.units
        self._setups = parts.setups

    def settle(self) -> None:
        """Train what is selected now; all workers are known to."""
        adaptation = self._parts.batching.adaptation
        if self._setups.settle():
            self._parts.membership.refuse_streams(OTHERS_TRAINED)
            if adaptation is not None:
                adaptation.relayout(self._setups.current.layout)

    def members_changed(self) -> None:
        """Nothing here belongs to ranks."""

    # The plan.

    def begin(self) -> None:
        """Plan a new step."""
        self._plan(again=False)

    def _plan(self, *, again: bool) -> None:
        self._tools.plan.make(self._begin_reducers, again=again)

    def _begin_reducers(self, again: bool) -> frozenset[int]:
        """Make ready for the units of the step; returns those whose gradients are there already."""
        kept = not self._setups.notice() and again  # gradients of units that were computed before
        setup, changed = self._setups.current, self._setups.changed
        for each in (setup, changed):
            if each is not None:
                each.reducer.begin(self._units.shares, self._parts.membership.rank, kept)
                if not again:
                    each.layout.begin()
        adaptation, position = self._parts.batching.adaptation, self._parts.position
        if adaptation is not None:
            adaptation.at_epoch(position.epoch)
            measured = adaptation.statistics.begin(position.step, again)
            setup.reducer.watch(self._measure if measured and changed is None else None)
        return setup.reducer.finished

    def _measure(self, vector: Tensor) -> None:
        adaptation = self._parts.batching.adaptation
        if adaptation is not None:
            adaptation.statistics.unit(vector, self._parts.recipe.loss_scale())

    # Units.

    def next_unit(self) -> tuple[int, int] | None:
        """(offset, samples) in the step's block of the unit to compute now; None when the step is done."""
        units, skips = self._units, self._parts.skips
        if units.unit is not None:
            self._body_ended_early(units.unit)
        if not units.left:
            return None
        setup, changed = self._setups.current, self._setups.changed
        unit = units.next()
        self._tools.body.prepare(unit)
        setup.reducer.start(unit)
        if changed is not None:
            changed.reducer.start(unit)
        elif not units.left and not skips.closing:
            self._tools.reduction.go_ahead(setup, unit)
        return self._tools.body.begins(unit)

    def _body_ended_early(self, unit: int) -> None:
        """The body has ended without ``opt.step()``."""
        self._tools.body.ends()
        parameters = (p for group in self._setups.current.optimizer.param_groups for p in group["params"])
        if all(p.grad is None for p in parameters):
            self._skip(unit)
        elif self._parts.recipe.accumulate > 1 and not self.step_due:
            self._unit_done()
        else:
            raise TrainError(
                "the loop body ended without opt.step(): every batch needs one; to train on larger batches, raise "
                "batch_size, or say job.accumulate(n) and write: if job.step_due: opt.step()"
            )

    def _skip(self, unit: int) -> None:
        """The script has skipped this part: it counts nothing."""
        units, skips = self._units, self._parts.skips
        units.leave()
        self._parts.membership.yield_gradients()
        self._notice_in_body()
        if not skips.closing:
            skips.skip(unit)
            self._setups.current.reducer.watch(None)
            self._take_in(unit)
        if units.left:
            return
        trained = None if skips.closing else skips.last_trained(units.shares, self._parts.membership.rank)
        if trained is not None:
            skips.close()
            units.hand_out_again(trained)
        else:
            skips.stay_away()
            units.answer(self._complete())

    def stepping(self, number: int) -> bool:  # noqa: ARG002
        """The body has called ``opt.step()``; True if that was a real step."""
        return self._unit_done()

    def _unit_done(self) -> bool:
        units, skips, unit = self._units, self._parts.skips, self._units.unit
        if unit is None:
            raise TrainError(
                "opt.step() was called outside the loop over job.loader(...), or twice for one batch"
            )
        self._tools.body.ends()
        setup = self._setups.current
        units.end(unit)
        self._parts.membership.yield_gradients()
        self._notice_in_body()
        if skips.closing:
            (self._setups.changed or setup).layout.clear()
        else:
            self._take_in(unit)
        units.answer(not units.left and self._complete())
        return units.stepped

    def _notice_in_body(self) -> None:
        """See whether the first body of a step has changed what is trained."""
        reducer = self._setups.current.reducer
        if not reducer.finished and self._setups.notice() and self._setups.changed is not None:
            reducer.watch(None)
            self._setups.changed.reducer.begin(self._units.shares, self._parts.membership.rank, False)

    def _take_in(self, unit: int) -> None:
        """Take a unit's gradients (none is zero) and buffers away."""
        setup, changed = self._setups.current, self._setups.changed
        if 0 in self._parts.recipe.sums:
            (changed or setup).layout.divide(self._units.shares.counts[unit])
        if changed is not None:
            changed.reducer.finish(unit)  # leaves zeros to the other
        self._tools.body.finish(setup, unit)

    # The end of a step.

    def _complete(self) -> bool:
        self.completing = True
        complete = self._reduce_and_apply()
        self.completing = False
        return complete

    def _reduce_and_apply(self) -> bool:
        parts, position, tools = self._parts, self._parts.position, self._tools
        while True:
            began = time.perf_counter()
            parts.times.reduction_begins()
            problem = ""
            try:
                vector, table = tools.reduction.reduce()
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                if self._setups.changed is not None:
                    self.settle()
                self.applying = True
                tools.commit.apply(vector, table, *parts.times.commit(parts.host_tail.committed))
                self.applying = False
                parts.membership.doing("outside", position.step)
                return True
            parts.membership.recover(tools.crew, problem, time.perf_counter() - began)
            if position.step != self._units.begun:
                position.fall_behind()  # another had applied this step, and its state was taken over
                return True
            self._plan(again=True)
            if self._units.left:
                return False

    def drop(self) -> None:
        """The script has left its loop without stepping on what it was given: that step has not begun."""
        self._tools.body.ends()
        if not self.half_done:
            return
        setup = self._setups.current
        # A group that breaks here shows at the next step.
        with contextlib.suppress(MembershipChanged):
            self._tools.reduction.complete_order()
        self._units.abandon(inside=bool(setup.reducer.finished))
        setup.buffers.restore()
        setup.layout.clear()

    # What others ask.

    @property
    def half_done(self) -> bool:
        """Whether some units of a step have been computed and others have not."""
        return self._units.half_done

    @property
    def in_body(self) -> bool:
        """Whether the script is in a loop body whose step is not complete."""
        return self._units.unit is not None

    @property
    def step_due(self) -> bool:
        """Whether the unit that is computed now is this worker's last one of the step."""
        return self._units.step_due

    def state_dict(self) -> dict[str, Any]:
        """At a boundary nothing was made of a step."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``: there is nothing to take over."""
