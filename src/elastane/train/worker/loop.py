"""One worker's training loop, turned inside out: the script pulls units, this decides what they mean.

A step has units; each owned unit is one pass through the script's loop body.  The body's ``opt.step()`` ends
the unit; after the last one the gradients of all workers are reduced and the real optimizer step is made.
If the group breaks meanwhile, the members re-form and the loop body simply gets more units of the same step.
Between steps lies the *boundary*: members change, checkpoints are taken, nothing is half done.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from elastane.train.adapt.controller import Adaptation
from elastane.train.adapt.oom_trial import memory_besides, try_batch
from elastane.train.adapt.rules import BatchChoice
from elastane.train.data.blocks import unit_spans
from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import seed_all
from elastane.train.errors import MembershipChanged, Released, TrainError
from elastane.train.reduce.contract import Ahead, Reducer, Shares
from elastane.train.reduce.gradients import GradientLayout, GradientVector
from elastane.train.reduce.mean import MeanReducer
from elastane.train.reduce.ordered import OrderedReducer
from elastane.train.reports.events import Warned
from elastane.train.traffic import Traffic
from elastane.train.transport_choice import TRANSPORT, wished
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.checkpoint_schedule import Keeper
from elastane.train.worker.consensus import Agreement
from elastane.train.worker.crew import OTHERS_TRAINED, LoopCrew, LoopHooks
from elastane.train.worker.digest import EVERY as DIGEST_EVERY
from elastane.train.worker.gearbox import Gear, Gearbox
from elastane.train.worker.host_tail import HostTail
from elastane.train.worker.leader_duties import Host, LeaderDuties
from elastane.train.worker.leader_results import LeaderResults
from elastane.train.worker.loss_guard import LossGuard
from elastane.train.worker.membership import Membership
from elastane.train.worker.piggyback_table import STALE, STEADY, Column, Row, Table
from elastane.train.worker.position import Position
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.reductions import Reductions
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.script_collective import ScriptCollectives
from elastane.train.worker.skipped_units import SkippedParts
from elastane.train.worker.step_cut import Feed, LoopSettings, StepCut
from elastane.train.worker.step_times import StepTimes
from elastane.train.worker.table_exchange import NoQuestion, exchange
from elastane.train.worker.telemetry import Reporter
from elastane.train.worker.update import Updates
from elastane.train.worker.whereabouts import Whereabouts


def reducer_of(settings: LoopSettings, recipe: Recipe, layout: GradientLayout) -> Reducer:
    """The reducer that keeps the promise of a mode."""
    if settings.mode is Mode.CONSISTENT:
        return OrderedReducer(layout, settings.units(recipe))
    return MeanReducer(layout, narrow=settings.traffic is Traffic.BF16)


@dataclass(frozen=True, slots=True)
class LoopParts:
    """What exists before training begins, and is put together in the loop."""

    settings: LoopSettings
    recipe: Recipe
    membership: Membership
    state: TrainingState
    reporter: Reporter
    position: Position
    agreement: Agreement
    keeper: Keeper | None = None
    host: Host = field(default_factory=Host)


class Loop:
    """The step engine of one worker; made when the script has named everything, complete when made."""

    leave_by: ClassVar[str] = "if data.steps >= n: break"
    """How a script may leave a loop over a loader."""

    def __init__(self, parts: LoopParts) -> None:
        settings, recipe, membership = parts.settings, parts.recipe, parts.membership
        state, reporter, host = parts.state, parts.reporter, parts.host
        self.settings = settings
        self.recipe = recipe
        self.membership = membership
        self.reporter = reporter
        self.position = parts.position
        self.agreement = parts.agreement
        self.adaptation: Adaptation | None = None
        """Batch and learning rate, once there is a loader (``adapt``)."""
        self.gears = Gearbox(state, lambda layout: reducer_of(settings, recipe, layout))
        self.skips = SkippedParts()
        self.crew = self._crew_of(state, host)
        collectives = ScriptCollectives(
            membership, self.position, self.skips, self.crew, self.meet_the_absent, self.complete_order
        )
        self.results = LeaderResults(membership, collectives)
        self.reductions = Reductions(membership, self.position, collectives, self)
        self.loss_guard = LossGuard(
            lambda: (float(recipe.loss_scale()), float(recipe.accumulate)),
            self._warn,
            wanted=recipe.loss_unsaid,
        )
        self.stepped = False
        """Whether the last ``opt.step()`` was a real one."""
        self.last_unit: int | None = None
        """The unit that ``opt.step()`` ended last, unless it has to be computed again."""
        self.turn = 0
        """Passes through loop bodies that this worker has begun."""
        self.shares = Shares((), ())
        """How the present step is cut into units."""
        self.begun = -1
        """The step that the loop body computes, or has just completed."""
        self._state = state
        self._cut = StepCut(settings, recipe)
        self.host_tail = HostTail(membership.device)
        self._updates = Updates(settings, recipe, membership, state, reporter)
        self._leader = LeaderDuties(membership, reporter, parts.keeper, host)
        self._feed: Feed | None = None
        self._pending: deque[int] = deque()
        self._unit: int | None = None
        self._completing = self._applying = False
        self._left_inside = False
        self._whereabouts = Whereabouts(self.leave_by)
        self._ahead = False  # all workers are known to send their gradients ahead
        self._times = StepTimes(membership.device)
        state.select(self.gears.selection(self._settle))

    def _crew_of(self, state: TrainingState, host: Host) -> LoopCrew:
        mode, seed, virtual = self.settings.mode.value, self.settings.seed, self.settings.virtual
        # Bits are those of a kind of device; means are equal up to rounding on any.
        same = self.membership.device.signature() if self.settings.mode is Mode.CONSISTENT else {}
        hooks = LoopHooks(
            {"mode": mode, "seed": seed, "virtual": virtual, "traffic": self.settings.traffic.value, **same},
            lambda: self.begun == self.position.step,
            self._members_changed,
        )
        m = self.membership
        return LoopCrew(state, self.position, self.gears, self.recipe, m, self.reporter, host, hooks)

    def adapt(self, adaptation: Adaptation) -> None:
        """From now on batch and learning rate are this one's."""
        self.adaptation = adaptation

    def join(self) -> None:
        """Become a member; a state that was taken over is that of a script further on."""
        self.membership.join(self.crew)
        self.position.fall_behind(self.position.tick > 0)
        if self.adaptation is not None:
            self._resplit(self.adaptation)

    @property
    def step(self) -> int:
        """Optimizer steps made so far."""
        return self.position.step

    # Members and what they train.

    def _settle(self) -> None:
        """Train what is selected now; all workers are known to."""
        if self.gears.settle():
            self.membership.refuse_streams(OTHERS_TRAINED)
            if self.adaptation is not None:
                self.adaptation.relayout(self.gears.current.layout)

    def _members_changed(self) -> None:
        """Ranks, shares and the split of the batch are new."""
        self._ahead = False  # newcomers have not heard it
        self.skips.take_source()  # whoever was ahead has passed its state on
        if self.adaptation is not None:
            self._resplit(self.adaptation)

    def _resplit(self, adaptation: Adaptation) -> None:
        """The same total over other workers; the leader may think of a better one later."""
        m = self.membership
        adaptation.memory.agree(m.most)
        total = max(self.agreement.total, adaptation.settings.batch0)
        batch = BatchChoice(total, "resized").shape(m.world, adaptation.limits)
        adaptation.adopt(batch, m.world, m.nodes)

    def _recover(self, problem: str, waited_s: float) -> None:
        self.membership.recover(self.crew, problem, waited_s)

    # Between two steps.

    def boundary(self, *, loop_begins: bool) -> None:
        """The only place where members change and state is whole."""
        m = self.membership
        m.doing("outside", self.step)
        self.meet_the_absent()
        if m.world == 1:
            self.agreement.alone()
        if self.agreement.stop:
            self._leader.save(self.position, wait=True)
            raise Released(m.stop_cause() or "asked to stop")
        generation = self.agreement.take_generation(loop_begins=loop_begins)
        if generation:
            m.switch(generation, self.crew)
        m.boundary(self.crew)
        self._leader.between_steps(self.position, self.adaptation)

    def meet_the_absent(self) -> None:
        """Workers that skipped all of their parts take over the step, and what the others did behind it.

        All workers meet at the first place behind the step where they would talk to each other anyway.
        """
        source = self.skips.take_source()
        if source is None or self.membership.group is None:
            return
        try:
            self.skips.meet(self.membership)
            self._state.share(self.membership.group, source)
        except MembershipChanged as error:
            self._recover(str(error), 0.0)

    def begin(self, feed: Feed) -> bool:
        """Begin a step on the next samples of a loader; False when its pass is over."""
        if self._left_inside:
            raise TrainError(
                "a loop over job.loader(...) was left in the middle of a step, which had several parts; "
                f"leave it by a count of whole steps: {self.leave_by}"
            )
        self._feed = feed
        self._plan(again=False)
        return self.shares.total > 0

    def _plan(self, *, again: bool) -> None:
        """Cut the step into units and find the own ones."""
        buffers, feed = self.gears.current.buffers, self._feed
        assert feed is not None
        samples = feed.available(self._cut.wanted(feed, self.adaptation))
        if not samples:
            self.shares = Shares((), ())
            return
        m = self.membership
        self.shares = self._cut.shares(samples, feed, self.adaptation, m.world, m.most)
        m.parts(max(self.shares.counts))
        if again:
            buffers.restore()
        else:
            buffers.snapshot()
            self.skips.begin()
            self._times.begin()
        self.begun = self.step
        finished = self._begin_reducers(again)
        if not again:
            self.gears.structure.check()
        owned = self.shares.owned_by(self.membership.rank)
        if again:
            self.reductions.keep(finished)
            self.skips.begin_again(finished)
            self.last_unit = self.last_unit if self.last_unit in finished else None
        busy = [u for u in owned if self.shares.counts[u]]
        # A worker without samples runs the body once all the same (its gradient counts nothing), so that
        # schedulers and counters in the script move alike everywhere.
        self._pending = deque(u for u in (busy or owned[:1]) if u not in finished)
        if self._pending:
            self.skips.come_by()  # what is left to compute decides anew

    def _begin_reducers(self, again: bool) -> frozenset[int]:
        """Make ready for the units of the step; returns those whose gradients are there already."""
        kept = not self.gears.notice() and again  # gradients of units that were computed before
        gear, changed = self.gears.current, self.gears.changed
        for each in (gear, changed):
            if each is not None:
                each.reducer.begin(self.shares, self.membership.rank, kept)
                if not again:
                    each.layout.begin()
        if self.adaptation is not None:
            self.adaptation.at_epoch(self.position.epoch)
            measured = self.adaptation.statistics.begin(self.step, again)
            gear.reducer.watch(self._measure if measured and changed is None else None)
        return gear.reducer.finished

    def _measure(self, vector: Tensor) -> None:
        if self.adaptation is not None:
            self.adaptation.statistics.unit(vector, self.recipe.loss_scale())

    # Units.

    def next_unit(self) -> tuple[int, int] | None:
        """(offset, samples) in the step's block of the unit to compute now; None when the step is done."""
        if self._unit is not None:
            self._body_ended_early(self._unit)
        if not self._pending:
            return None
        gear, changed = self.gears.current, self.gears.changed
        self._unit = unit = self._pending.popleft()
        self.turn += 1
        if self.settings.mode is Mode.CONSISTENT:
            gear.buffers.restore()
            seed_all(key_of(Purpose.UNIT, self.settings.seed, self.step, unit), self.membership.device)
        gear.reducer.start(unit)
        if changed is not None:
            changed.reducer.start(unit)
        elif not self._pending and not self.skips.closing:
            self._go_ahead(gear, unit)
        return self._body_begins(unit)

    def _go_ahead(self, gear: Gear, unit: int) -> None:
        """The last unit of a step: its gradients may be reduced while its backward pass runs."""
        if self.membership.transport is None:
            return
        if self._ahead:
            self.membership.yield_gradients()
        divide = self.shares.counts[unit] if 0 in self.recipe.sums else 1
        gear.reducer.go_ahead(unit, Ahead(self.membership.transport, self._ahead, divide))

    def complete_order(self) -> None:
        """Members are about to meet elsewhere in the middle of a step: what some have sent ahead, all send now.

        All of them know whether anybody sends ahead, so either all do this or none.
        """
        if self._ahead and self.half_done and self.membership.reduces_by is not None:
            self.gears.current.reducer.complete(self.membership.reduces_by)

    def _body_begins(self, unit: int) -> tuple[int, int]:
        """The script's loop body runs from here to ``opt.step()``, or until it leaves the loop."""
        self.recipe.clipping.open()
        self.loss_guard.open(self.shares.counts[unit])
        self.membership.doing("computing", self.step)
        self._times.unit_begins()
        offset, count = unit_spans(0, self.shares.counts)[unit]
        return (offset, count) if count else (0, 1)  # run on a sample that counts nothing

    def _body_ends(self) -> None:
        self.gears.current.reducer.body_over()
        self.recipe.clipping.close()
        self.loss_guard.close()

    def _body_ended_early(self, unit: int) -> None:
        """The body has ended without ``opt.step()``."""
        self._body_ends()
        parameters = (p for group in self.gears.current.optimizer.param_groups for p in group["params"])
        if all(p.grad is None for p in parameters):
            self._skip(unit)
        elif self.recipe.accumulate > 1 and not self.step_due:
            self.unit_done()
        else:
            raise TrainError(
                "the loop body ended without opt.step(): every batch needs one; to train on larger batches, raise "
                "batch_size, or say job.accumulate(n) and write: if job.step_due: opt.step()"
            )

    def _skip(self, unit: int) -> None:
        """The script has skipped this part: it counts nothing."""
        self._unit = None
        self.membership.yield_gradients()
        self._notice_in_body()
        if not self.skips.closing:
            self.skips.skip(unit)
            self.gears.current.reducer.watch(None)
            self._take_in(unit)
        if self._pending:
            return
        trained = None if self.skips.closing else self.skips.last_trained(self.shares, self.membership.rank)
        if trained is not None:
            self.skips.close()
            self._pending.append(trained)
        else:
            self.skips.stay_away()
            self.stepped = self._complete()

    def drop(self) -> None:
        """The script has left its loop without stepping on what it was given: that step has not begun."""
        self._body_ends()
        if not self.half_done:
            return
        gear = self.gears.current
        # A group that breaks here shows at the next step.
        with contextlib.suppress(MembershipChanged):
            self.complete_order()
        self._left_inside = bool(gear.reducer.finished)
        self._unit = None
        self._pending.clear()
        gear.buffers.restore()
        gear.layout.clear()

    @property
    def half_done(self) -> bool:
        """Whether some units of a step have been computed and others have not."""
        return bool(self._pending) or self._unit is not None

    @property
    def step_due(self) -> bool:
        """Whether the unit that is computed now is this worker's last one of the step."""
        return self._unit is not None and not self._pending

    @property
    def unit_open(self) -> bool:
        """Whether the script is computing a unit, and has not called ``opt.step()`` for it."""
        return self._unit is not None

    def spans_ahead(self, position: int) -> list[tuple[int, int]]:
        """What this worker will fetch in this step and, if nothing changes, in the next."""
        spans = unit_spans(position, self.shares.counts)
        mine = [spans[unit] for unit in self._pending if spans[unit][1]]
        return [*mine, *((start + self.shares.total, count) for start, count in mine)]

    def stepping(self, number: int) -> bool:  # noqa: ARG002
        """The body has called ``step()`` of an optimizer; True if that was a real step."""
        return self.unit_done()

    def unit_done(self) -> bool:
        """The body has called ``opt.step()``; True if that was a real step."""
        if self._unit is None:
            raise TrainError(
                "opt.step() was called outside the loop over job.loader(...), or twice for one batch"
            )
        self._body_ends()
        gear = self.gears.current
        unit, self._unit = self._unit, None
        self.last_unit = unit
        self.membership.yield_gradients()
        self._notice_in_body()
        if self.skips.closing:
            (self.gears.changed or gear).layout.clear()
        else:
            self._take_in(unit)
        self.stepped = not self._pending and self._complete()
        return self.stepped

    def _notice_in_body(self) -> None:
        """See whether the first body of a step has changed what is trained."""
        reducer = self.gears.current.reducer
        if not reducer.finished and self.gears.notice() and self.gears.changed is not None:
            reducer.watch(None)
            self.gears.changed.reducer.begin(self.shares, self.membership.rank, False)

    def _take_in(self, unit: int) -> None:
        """Take a unit's gradients (none is zero) and buffers away."""
        gear, changed = self.gears.current, self.gears.changed
        if 0 in self.recipe.sums:
            (changed or gear).layout.divide(self.shares.counts[unit])
        if changed is not None:
            changed.reducer.finish(unit)  # leaves zeros to the other
        self._finish(gear, unit)

    def _finish(self, gear: Gear, unit: int) -> None:
        gear.reducer.finish(unit)
        if unit == 0 or self.settings.mode is not Mode.CONSISTENT:
            gear.buffers.keep()
        self._times.unit_ends()

    # The end of a step.

    @property
    def in_body(self) -> bool:
        """Whether the script is in a loop body whose step is not complete."""
        return self._unit is not None

    def memory_ran_out(self, *, in_step: bool) -> None:
        """The script ends for lack of memory: what the coordinator has to know, and the state if nobody else has it.

        The step under way has changed nothing but buffers, unless the optimizer has begun with it.
        """
        if not in_step and not self.in_body and not self._completing:
            self.membership.parts(0)
        elif not self._applying and self.settings.mode is not Mode.CONSISTENT:
            self.crew.rewind()
            self._leader.save(self.position, wait=True)

    def _complete(self) -> bool:
        self._completing = True
        complete = self._reduce_and_apply()
        self._completing = False
        return complete

    def _reduce_and_apply(self) -> bool:
        while True:
            began = time.perf_counter()
            self._times.reduction_begins()
            problem = ""
            try:
                vector, table = self._reduce()
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                if self.gears.changed is not None:
                    self._settle()
                self._applying = True
                self._apply(vector, table, *self._times.commit(self.host_tail.committed))
                self._applying = False
                self.membership.doing("outside", self.step)
                return True
            self._recover(problem, time.perf_counter() - began)
            if self.step != self.begun:
                self.position.fall_behind()  # another had applied this step, and its state was taken over
                return True
            self._plan(again=True)
            if self._pending:
                return False

    def _reduce(self) -> tuple[GradientVector, Table]:
        """The mean gradient and the table; twice in a step that changes what is trained.

        Workers must not meet in one collective with vectors of different sizes, so the first time all of them
        reduce as before, and the table tells whether they have changed alike.
        """
        gear, changed = self.gears.current, self.gears.changed
        row = self.agreement.row(self.step, gear.layout, self.adaptation, self._times.said())
        row.numbers[Column.TRAINED] = float((changed or gear).trained.mark)
        if changed is None:
            row.numbers[Column.AHEAD] = STALE if gear.reducer.stale else STEADY * gear.reducer.steady
        self.skips.say(row.numbers, self.shares)
        vector, table = self._exchange(gear, row)
        if len(set(table.all(Column.TRAINED))) > 1:
            raise TrainError(
                "workers do not train the same parameters: freeze, unfreeze and add parameters at the same place "
                "on every worker, not depending on job.rank"
            )
        if changed is None:
            return vector, table
        row = row.for_groups(len(changed.layout.groups))
        # Newcomers that follow have to be turned away first.
        row.numbers[Column.SWITCH] = row.numbers[Column.AT_LOOP] = 0.0
        row.numbers[Column.NOISE] = 0.0
        return self._exchange(changed, row)

    def _exchange(self, gear: Gear, row: Row) -> tuple[GradientVector, Table]:
        m, adaptation, feed = self.membership, self.adaptation, self._feed
        assert feed is not None
        self._whereabouts.say(row.numbers, feed)
        m.doing("waiting", self.step)
        # In a step that changes what is trained, statistics are of the layout before, and nobody reads the answer.
        silent = m.device.is_cpu or self.gears.changed is not None
        question = NoQuestion() if silent else self._updates.question(adaptation)
        vector, table = exchange(m, gear, self.shares, row, self.host_tail, question)
        m.doing("outside", self.step)  # nobody has to come for what is left of the step
        self._whereabouts.compare(table, m, feed)
        return vector, table

    def _apply(self, vector: GradientVector, table: Table, passes_s: list[float], sync_s: float) -> None:
        samples, made, adaptation = self.shares.total, self.begun + 1, self.adaptation
        self._ahead = set(table.all(Column.AHEAD)) == {STEADY}
        skipped = self.skips.hear(table)
        if not skipped:
            self._updates.learn(vector, table, self.shares, adaptation)
        if not self.skips.behind:
            if skipped < samples:
                self._updates.make(self.gears.current, vector, samples, skipped, adaptation, made)
            self._count(samples, nothing=skipped == samples)
        if self.settings.mode is Mode.CONSISTENT:
            seed_all(key_of(Purpose.UNIT, self.settings.seed, made, -1), self.membership.device)
        if (made - 1) % DIGEST_EVERY == 0 and self.membership.world > 1 and self.skips.source is None:
            self._updates.compare(table, self.step)
        self.agreement.read(table, adaptation, self._fits, made)
        self.reporter.account(table, self.shares, passes_s, sync_s, self.membership, adaptation)

    def _count(self, samples: int, *, nothing: bool) -> None:
        """The step is over, whether the optimizer has stepped or there was nothing to step on."""
        self.position.advance()
        if self._feed is not None:
            self._feed.advance(samples, skipped=nothing)
        if nothing:
            self.position.fall_behind()  # behind opt.step() nothing is to be done

    def _fits(self, samples: int) -> bool:
        """Whether so many samples fit into memory, tried with inputs that were really seen."""
        inputs = self.recipe.inputs
        if inputs is None:
            return True
        reserve = memory_besides(self.gears.current.layout.size, wished(os.environ.get(TRANSPORT)).communicator)
        return try_batch(self.gears.current.model, inputs, samples, reserve=reserve)

    def _warn(self, text: str) -> None:
        if self.membership.rank == 0:
            self.reporter.emit(Warned(self.reporter.wall(), text))

    def from_leader(self, key: str, compute: Callable[[], Any]) -> Any:
        """The leader's result (JSON values) on all workers; the one there was, if ``key`` is known already."""
        return self.results.get(key, compute)

    def finish(self) -> None:
        """The end of training: nobody leaves while another may still need his part of the last step."""
        self._body_ends()
        with contextlib.suppress(MembershipChanged):  # the script may have ended in the middle of a step
            self.complete_order()
        self.membership.doing("outside", self.step)
        self.meet_the_absent()
        self._leader.at_the_end(self.position)
        self.membership.finish(self.step)

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands, and what workers have agreed on."""
        return {**self.position.state_dict(), "told": self.results.known, "total": self.agreement.total}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.position.load_state_dict(state)
        self.results.replace(state["told"])
        self.agreement.resume(int(state["total"]))
