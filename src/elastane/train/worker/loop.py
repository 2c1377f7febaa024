"""One worker's training loop, turned inside out: the script pulls units, this decides what they mean.

A step has units; each owned unit is one pass through the script's loop body.  The body's ``opt.step()`` ends
the unit; after the last one the gradients of all workers are reduced and the real optimizer step is made.
If the group breaks meanwhile, the members re-form and the loop body simply gets more units of the same step.
Between steps lies the *boundary*: members change, checkpoints are taken, nothing is half done.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from elastane.cluster import Batch
from elastane.train.adapt.controller import Adaptation
from elastane.train.adapt.oom_trial import try_batch
from elastane.train.adapt.rules import BatchChoice
from elastane.train.data.blocks import unit_spans
from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import seed_all
from elastane.train.errors import Diverged, MembershipChanged, Released, TrainError
from elastane.train.reduce.contract import Reducer, Shares
from elastane.train.reduce.gradients import GradientLayout, GradientVector
from elastane.train.reduce.mean import MeanReducer
from elastane.train.reduce.ordered import OrderedReducer
from elastane.train.reports.events import Diverged as DivergedEvent
from elastane.train.reports.events import Event, Resized, Warned
from elastane.train.worker.batch_split import Mode, consistent_shares, divided_shares
from elastane.train.worker.buffers import BufferKeeper
from elastane.train.worker.checkpoint_schedule import Keeper
from elastane.train.worker.clipping import Clipping
from elastane.train.worker.consensus import Agreement
from elastane.train.worker.digest import EVERY as DIGEST_EVERY
from elastane.train.worker.live_join import ShadowReceiver, ShadowSender, can_follow
from elastane.train.worker.loss_guard import LossGuard
from elastane.train.worker.membership import Change, Membership
from elastane.train.worker.parameter_names import plain_name
from elastane.train.worker.piggyback_table import Column, Table, width
from elastane.train.worker.reductions import Reductions
from elastane.train.worker.replica_state import Selection, TrainingState
from elastane.train.worker.skipped_units import SkippedParts
from elastane.train.worker.sparse_gradients import give_sparse
from elastane.train.worker.structure_guard import ModelStructure
from elastane.train.worker.telemetry import Reporter
from elastane.train.worker.trained_parameters import (
    ParameterNames,
    TrainedParameters,
    put_selection,
    take_selection,
)

_KEPT_RESULTS = 63
_OTHERS_TRAINED = "other parameters are trained than at the start"


class Feed(Protocol):
    """The part of a loader that the loop needs."""

    name: str
    batch_size: int
    adapts: bool
    skipped: int
    """Steps of the present loop of which the script skipped every part."""

    def available(self, samples: int) -> int:
        """How many of the next ``samples`` there are in this pass."""
        ...

    def advance(self, samples: int) -> None:
        """These have been trained on."""
        ...


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What does not change during a job."""

    mode: Mode
    seed: int
    virtual: int
    max_norm: float | None = None


@dataclass(frozen=True, slots=True)
class Gear:
    """What training needs, once the script has named it."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    layout: GradientLayout
    reducer: Reducer
    buffers: BufferKeeper
    trained: TrainedParameters


class Loop:
    """The engine of one worker; ``Crew`` for its membership."""

    def __init__(
        self, settings: LoopSettings, membership: Membership, state: TrainingState, reporter: Reporter
    ) -> None:
        self.settings = settings
        self.membership = membership
        self.state = state
        self.reporter = reporter
        self.step = 0
        self.epoch = 0
        """How far the job is; the script itself may still be finding its way there (``here``)."""
        self.here = 0
        self.tick = 0
        """Steps and evaluations completed: who has more is ahead."""
        self.catching_up = False
        """State was taken over from a worker ahead: what the script does until the next collective is done already."""
        self.inside = False
        """Whether the script is in the body of a loop over a loader."""
        self.stepped = False
        """Whether the last ``opt.step()`` was a real one."""
        self.max_norm = settings.max_norm
        self.extra_signature: dict[str, Any] = {}
        self.restore_hook: Callable[[int], None] = lambda _generation: None
        self.raw_step: Callable[[], None] = lambda: None
        self.loss_scale: Callable[[], float] = lambda: 1.0
        self.scaled = False
        self.summed_loss = False
        """The script's loss is a sum over samples, not their mean."""
        self.accumulate = 1
        """Batches of a loader that make one step; the script divides its loss by it."""
        self.clipping = Clipping(lambda: state.optimizers, lambda: self.loss_scale())
        self.loss_guard = LossGuard(lambda: (self.loss_scale(), float(self.accumulate)), self._warn)
        self.agreement = Agreement(settings.mode, membership, reporter)
        self.keeper: Keeper | None = None
        self.adaptation: Adaptation | None = None
        self.last_inputs: object = None
        self.facts: Callable[[], dict[str, Any]] = dict
        self.started: Callable[[], Event] | None = None
        self._ready: Gear | None = None
        self._changed: Gear | None = None
        """For what the script wants to train now, until all workers are known to want it."""
        self._refitted = False
        self._feed: Feed | None = None
        self._shares = Shares((), ())
        self._begun = -1
        self._pending: deque[int] = deque()
        self._unit: int | None = None
        self._left_inside = False
        self.last_unit: int | None = None
        """The unit that ``opt.step()`` ended last, unless it has to be computed again."""
        self.leave_by = "if data.steps >= n: break"
        self.turn = 0
        """Passes through loop bodies that this worker has begun."""
        self.reductions = Reductions(self)
        self.skips = SkippedParts()
        self._told: dict[str, Any] = {}
        self._unit_began = 0.0
        self._passes: list[float] = []

    # Setting up.

    def enlist(self, raw_step: Callable[[], None]) -> int:
        """One more optimizer, by its own ``step``; returns the number it has here."""
        self.raw_step = raw_step
        return 0

    def stepping(self, number: int) -> bool:  # noqa: ARG002
        """The body has called ``step()`` of an optimizer; True if that was a real step."""
        return self.unit_done()

    def attach(self, model: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
        """The model and what optimizes it, once both are known."""
        self._names = names = ParameterNames(model, *optimizers)
        self._structure = ModelStructure(model)
        self._ready = self._geared(model, optimizers[0], BufferKeeper(model))
        self.state.selection = Selection(
            lambda: take_selection(names, *optimizers),
            lambda selection: put_selection(names, selection, *optimizers),
            self._settle,
        )
        if names.outside:
            self.state.add("parameters outside the model", names.take_outside, names.put_outside)

    def _geared(self, model: nn.Module, optimizer: torch.optim.Optimizer, buffers: BufferKeeper) -> Gear:
        """What it takes to train the parameters that are selected now."""
        layout = GradientLayout([group["params"] for group in optimizer.param_groups])
        reducer: Reducer = (
            OrderedReducer(layout, self._virtual)
            if self.settings.mode is Mode.CONSISTENT
            else MeanReducer(layout)
        )
        return Gear(model, optimizer, layout, reducer, buffers, TrainedParameters(self._names, optimizer))

    # Parameters that are frozen, unfrozen or added while training goes on.

    def _notice(self) -> bool:
        """See whether the script has changed what is trained; True if it has since this was last asked."""
        gear = self._gear
        if gear.trained.still_true(gear.optimizer):
            self._changed = None
        elif self._changed is None or not self._changed.trained.still_true(gear.optimizer):
            self._changed = self._geared(gear.model, gear.optimizer, gear.buffers)
            return True
        return False

    def _settle(self) -> None:
        """Train what is selected now; all workers are known to."""
        self._notice()
        if self._changed is None:
            return
        self._gear.layout.clear()
        self._ready, self._changed, self._refitted = self._changed, None, True
        self.membership.refuse_streams(_OTHERS_TRAINED)
        if self.adaptation is not None:
            self.adaptation.relayout(self.layout)

    @property
    def _gear(self) -> Gear:
        if self._ready is None:
            raise TrainError("call job.model(...) and job.optimizer(...) before training begins")
        return self._ready

    def _measure(self, vector: Tensor) -> None:
        if self.adaptation is not None:
            self.adaptation.statistics.unit(vector, self.loss_scale())

    @property
    def layout(self) -> GradientLayout:
        """Where gradients lie."""
        return self._gear.layout

    # What membership asks (``Crew``).

    @property
    def followable(self) -> bool:
        """Whether updates can be repeated by a newcomer: a loss scaler may have skipped some."""
        return can_follow(self.state.optimizer) and not self.scaled

    def signature(self) -> Mapping[str, Any]:
        """What must be equal between workers."""
        names = {id(p): plain_name(name) for name, p in self._gear.model.named_parameters()}
        return {
            **self.extra_signature,
            "parameters": [
                [names.get(id(p), "?"), list(p.shape), str(p.dtype)] for p in self.layout.parameters
            ],
            "settings": {
                "mode": self.settings.mode.value,
                "seed": self.settings.seed,
                "virtual": self.settings.virtual,
                "accumulate": self.accumulate,
                "optimizer": type(self.state.optimizer).__name__,
            },
        }

    def restore(self, generation: int = 0) -> None:
        """Go back to the last checkpoint."""
        self.restore_hook(generation)

    def rewind(self) -> None:
        """Model buffers as they were before the step under way; its forwards have changed them."""
        if self._begun == self.step and self._ready is not None:
            self._ready.buffers.restore()

    def sender(self, target: str, token: str) -> ShadowSender:
        """A stream of this worker's state."""
        sender = ShadowSender(target, token, self.state, self.layout)
        if self._refitted:
            # A newcomer's script selects what was trained at first, and could not follow.
            sender.refuse(_OTHERS_TRAINED)
        return sender

    def follow(self, receiver: ShadowReceiver, caught_up: Callable[[], None]) -> int:
        """Become a replica of whoever sends."""
        self.step = receiver.follow(self.state, self.layout, self.raw_step, caught_up)
        return self.step

    def changed(self, change: Change) -> None:
        """Other members: ranks, shares and the split of the batch are new."""
        self.skips.source = None  # whoever was ahead has passed its state on
        self.reporter.resized()
        redone = int(change.kind == "recover" and self._begun == self.step)
        if self.membership.rank == 0:
            if change.kind == "start" and self.started is not None:
                self.reporter.emit(self.started())
            self.reporter.emit(
                Resized(
                    self.reporter.wall(),
                    change.generation,
                    change.kind,  # type: ignore[arg-type]
                    change.before,
                    change.after,
                    self.step,
                    change.pause_s,
                    change.breakdown,
                    change.shadow,
                    redone,
                )
            )
        if self.adaptation is not None:
            self.resplit(self.adaptation)

    def resplit(self, adaptation: Adaptation) -> None:
        """The same total over other workers; the leader may think of a better one later."""
        m = self.membership
        total = max(self.agreement.total, adaptation.settings.batch0)
        batch = BatchChoice(total, "resized").shape(m.world, adaptation.limits)
        adaptation.adopt(batch, m.world, m.nodes)

    # The script's side.

    def boundary(self) -> None:
        """Between two steps: the only place where members change and state is whole."""
        m = self.membership
        m.doing("outside", self.step)
        self.meet_the_absent()
        if m.world == 1:
            self.agreement.alone()
        if self.agreement.stop:
            self._save(wait=True)
            raise Released(m.stop_cause() or "asked to stop")
        generation, self.agreement.generation = self.agreement.generation, 0
        if generation:
            m.switch(generation, self)
        m.boundary(self)
        if m.rank == 0:
            self._lead()

    def meet_the_absent(self) -> None:
        """Workers that skipped all of their parts take over the step, and what the others did behind it.

        All workers meet at the first place behind the step where they would talk to each other anyway.
        """
        source, self.skips.source = self.skips.source, None
        if source is None or self.membership.group is None:
            return
        try:
            self.skips.meet(self.membership)
            self.state.share(self.membership.group, source)
        except MembershipChanged as error:
            self.membership.recover(self, str(error))

    def _save(self, *, wait: bool) -> None:
        if self.keeper is not None and self.membership.rank == 0:
            self.keeper.save(self.step, self.epoch, self.membership.generation, wait=wait)

    def _lead(self) -> None:
        """What only the leader does at a boundary: checkpoints and reports."""
        if self.keeper is not None and self.keeper.due:
            self._save(wait=False)
        if self.reporter.due():
            if self.keeper is not None:
                self.keeper.tell()
            self.reporter.window(**self.facts())
            if self.adaptation is not None:
                self.reporter.fitted(self.adaptation.hints())

    def begin(self, feed: Feed) -> bool:
        """A new step on the next samples of a loader; False when its pass is over."""
        if self._left_inside:
            raise TrainError(
                "a loop over job.loader(...) was left in the middle of a step, which had several parts; "
                f"leave it by a count of whole steps: {self.leave_by}"
            )
        self._feed = feed
        self._plan(again=False)
        return self._shares.total > 0

    def _plan(self, *, again: bool) -> None:
        """Cut the step into units and find the own ones."""
        gear, feed = self._gear, self._feed
        assert feed is not None
        samples = feed.available(self._wanted(feed))
        if not samples:
            self._shares = Shares((), ())
            return
        self._shares = self._cut(samples, feed)
        if again:
            gear.buffers.restore()
        else:
            gear.buffers.snapshot()
            self.skips.begin()
            self._passes = []
        self._begun = self.step
        finished = self._begin_reducers(again)
        if not again:
            self._structure.check()
        owned = self._shares.owned_by(self.membership.rank)
        if again:
            self.reductions.keep(finished)
            self.skips.begin_again(finished)
            self.last_unit = self.last_unit if self.last_unit in finished else None
        busy = [u for u in owned if self._shares.counts[u]]
        # A worker without samples runs the body once all the same (its gradient counts nothing), so that
        # schedulers and counters in the script move alike everywhere.
        self._pending = deque(u for u in (busy or owned[:1]) if u not in finished)
        if self._pending:
            self.skips.absent = False  # what is left to compute decides anew

    def _begin_reducers(self, again: bool) -> frozenset[int]:
        """Make ready for the units of the step; returns those whose gradients are there already."""
        gear = self._gear
        kept = not self._notice() and again  # gradients of units that were computed before
        for each in (gear, self._changed):
            if each is not None:
                each.reducer.begin(self._shares, self.membership.rank, kept)
                if not again:
                    each.layout.begin()
        if self.adaptation is not None:
            self.adaptation.epoch = float(self.epoch)
            measured = self.adaptation.statistics.begin(self.step, again)
            gear.reducer.observe = self._measure if measured and self._changed is None else None
        return gear.reducer.finished

    def _wanted(self, feed: Feed) -> int:
        if self.adaptation is not None and feed.adapts and self.settings.mode is Mode.ADAPTIVE:
            return self.adaptation.total
        return feed.batch_size * self.accumulate

    @property
    def _virtual(self) -> int:
        """Units of a step in consistent mode: none is larger than a batch of the loader."""
        return max(self.settings.virtual, self.accumulate)

    def _cut(self, samples: int, feed: Feed) -> Shares:
        world = self.membership.world
        if self.settings.mode is Mode.CONSISTENT:
            return consistent_shares(samples, self._virtual, world)
        alike = Batch(1, -(-self.accumulate // world) - 1)
        batch = self.adaptation.batch if self.adaptation is not None and feed.adapts else alike
        return divided_shares(samples, batch, world)

    def next_unit(self) -> tuple[int, int] | None:
        """(offset, samples) in the step's block of the unit to compute now; None when the step is done."""
        if self._unit is not None:
            self._body_ended_early(self._unit)
        if not self._pending:
            return None
        gear = self._gear
        self._unit = unit = self._pending.popleft()
        self.turn += 1
        if self.settings.mode is Mode.CONSISTENT:
            gear.buffers.restore()
            seed_all(key_of(Purpose.UNIT, self.settings.seed, self.step, unit))
        gear.reducer.start(unit)
        if self._changed is not None:
            self._changed.reducer.start(unit)
        self._body_begins(self._shares.counts[unit])
        self.membership.doing("computing", self.step)
        self._unit_began = time.perf_counter()
        return self._span(unit)

    def _body_ended_early(self, unit: int) -> None:
        """The body has ended without ``opt.step()``."""
        self._body_ends()
        parameters = (p for group in self._gear.optimizer.param_groups for p in group["params"])
        if all(p.grad is None for p in parameters):
            self._skip(unit)
        elif self.accumulate > 1 and not self.step_due:
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
            self.skips.units.add(unit)
            self._gear.reducer.observe = None
            self._take_in(unit)
        if self._pending:
            return
        trained = None if self.skips.closing else self.skips.last_trained(self._shares, self.membership.rank)
        if trained is not None:
            self.skips.closing = True
            self._pending.append(trained)
        else:
            self.skips.absent = True
            self.stepped = self._complete()

    def _span(self, unit: int) -> tuple[int, int]:
        """Offset and samples of a unit; one that has none is run on a sample that counts nothing."""
        offset, count = unit_spans(0, self._shares.counts)[unit]
        return (offset, count) if count else (0, 1)

    def _body_begins(self, samples: int) -> None:
        """The script's loop body runs from here to ``opt.step()``, or until it leaves the loop."""
        self.clipping.open()
        self.loss_guard.open(samples)

    def _body_ends(self) -> None:
        self.clipping.close()
        self.loss_guard.close()

    def _warn(self, text: str) -> None:
        if self.membership.rank == 0:
            self.reporter.emit(Warned(self.reporter.wall(), text))

    def drop(self) -> None:
        """The script has left its loop without stepping on what it was given: that step has not begun."""
        self._body_ends()
        if self._ready is None or not self.half_done:
            return
        self._left_inside = bool(self._gear.reducer.finished)
        self._unit = None
        self._pending.clear()
        self._gear.buffers.restore()
        self.layout.clear()

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

    @property
    def begun(self) -> int:
        """The step that the loop body computes, or has just completed."""
        return self._begun

    @property
    def shares(self) -> Shares:
        """How that step was cut into units."""
        return self._shares

    def spans_ahead(self, position: int) -> list[tuple[int, int]]:
        """What this worker will fetch in this step and, if nothing changes, in the next."""
        spans = unit_spans(position, self._shares.counts)
        mine = [spans[unit] for unit in self._pending if spans[unit][1]]
        return [*mine, *((start + self._shares.total, count) for start, count in mine)]

    def unit_done(self) -> bool:
        """The body has called ``opt.step()``; True if that was a real step."""
        if self._unit is None:
            raise TrainError(
                "opt.step() was called outside the loop over job.loader(...), or twice for one batch"
            )
        self._body_ends()
        gear = self._gear
        unit, self._unit = self._unit, None
        self.last_unit = unit
        self.membership.yield_gradients()
        self._notice_in_body()
        if self.skips.closing:
            (self._changed or gear).layout.clear()
        else:
            self._take_in(unit)
        self.stepped = not self._pending and self._complete()
        return self.stepped

    def _notice_in_body(self) -> None:
        """See whether the first body of a step has changed what is trained."""
        reducer = self._gear.reducer
        if not reducer.finished and self._notice() and self._changed is not None:
            reducer.observe = None
            self._changed.reducer.begin(self._shares, self.membership.rank, False)

    def _take_in(self, unit: int) -> None:
        """Take a unit's gradients (none is zero) and buffers away."""
        gear = self._gear
        if self.summed_loss:
            (self._changed or gear).layout.divide(self._shares.counts[unit])
        if self._changed is not None:
            self._changed.reducer.finish(unit)  # leaves zeros to the other
        gear.reducer.finish(unit)
        if unit == 0 or self.settings.mode is not Mode.CONSISTENT:
            gear.buffers.keep()
        self._passes.append(time.perf_counter() - self._unit_began)

    def _complete(self) -> bool:
        while True:
            began = time.perf_counter()
            problem = ""
            try:
                vector, table = self._reduce()
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                if self._changed is not None:
                    self._settle()
                self._apply(vector, table, time.perf_counter() - began)
                return True
            self.membership.recover(self, problem, time.perf_counter() - began)
            if self.step != self._begun:
                self.catching_up = True  # another had applied this step already, and its state was taken over
                return True
            self._plan(again=True)
            if self._pending:
                return False

    def _reduce(self) -> tuple[GradientVector, Table]:
        """The mean gradient and the table; twice in a step that changes what is trained.

        Workers must not meet in one collective with vectors of different sizes, so the first time all of them
        reduce as before, and the table tells whether they have changed alike.
        """
        gear, changed = self._gear, self._changed
        row = self.agreement.row(self.step, self.layout, self.adaptation, self._passes)
        row[Column.TRAINED] = float((changed or gear).trained.mark)
        self.skips.say(row, self._shares)
        vector, table = self._exchange(gear, row)
        if len(set(table.all(Column.TRAINED))) > 1:
            raise TrainError(
                "workers do not train the same parameters: freeze, unfreeze and add parameters at the same place "
                "on every worker, not depending on job.rank"
            )
        if changed is None:
            return vector, table
        row[Column.SWITCH] = 0.0  # newcomers that follow have to be turned away first
        row = row[: len(Column)] + [0.0] * (width(len(changed.layout.groups)) - len(Column))
        row[Column.NOISE] = 0.0
        return self._exchange(changed, row)

    def _exchange(self, gear: Gear, row: Sequence[float]) -> tuple[GradientVector, Table]:
        m = self.membership
        size = width(len(gear.layout.groups))
        table_size = m.world * size
        if m.world == 1:
            return self._exchange_alone(gear, row)
        buffers_end = table_size + gear.buffers.size
        tail = gear.reducer.tail_of(buffers_end + gear.layout.count)
        tail[m.rank * size : (m.rank + 1) * size] = torch.tensor(row, dtype=tail.dtype)
        if self._shares.owner[0] == m.rank:
            gear.buffers.write(tail[table_size:buffers_end])
        gear.layout.tell(tail[buffers_end:])
        m.doing("waiting", self.step)
        vector = gear.reducer.reduce(m.group, len(tail))
        gear.buffers.read(vector.tail[table_size:buffers_end])
        gear.layout.hear(vector.tail[buffers_end : len(tail)])
        return vector, Table.read(vector.tail[:table_size], m.world)

    def _exchange_alone(self, gear: Gear, row: Sequence[float]) -> tuple[GradientVector, Table]:
        """The same without others: nothing but the table has to travel."""
        tail = gear.reducer.tail_of(len(row))
        tail[:] = torch.tensor(row, dtype=tail.dtype)
        self.membership.doing("waiting", self.step)
        vector = gear.reducer.reduce(self.membership.group, len(row))
        gear.buffers.take_kept()
        gear.layout.hear_only_own()
        return vector, Table.read(vector.tail[: len(row)], 1)

    def _apply(self, vector: GradientVector, table: Table, sync_s: float) -> None:
        samples, made = self._shares.total, self._begun + 1
        skipped = self.skips.hear(table)
        if not skipped:
            self._statistics(vector, table)
        if not self.skips.behind:
            if skipped < samples:
                self._use(vector, samples, skipped)
            self._count(samples, nothing=skipped == samples)
        if self.settings.mode is Mode.CONSISTENT:
            seed_all(key_of(Purpose.UNIT, self.settings.seed, made, -1))
        if (made - 1) % DIGEST_EVERY == 0 and self.membership.world > 1 and self.skips.source is None:
            self._compare(table)
        self.agreement.read(table, self.adaptation, self._fits, made)
        self.reporter.account(table, self._shares, self._passes, sync_s, self.membership, self.adaptation)

    def _use(self, vector: GradientVector, samples: int, skipped: int) -> None:
        """Make the step with the mean over the samples that were not skipped (or their sum)."""
        adapts = self.adaptation is not None and self.settings.mode is Mode.ADAPTIVE
        if skipped and (adapts or not self.summed_loss):
            vector.gradients.mul_(samples / (samples - skipped))
        if self.summed_loss:
            vector.gradients.mul_(self._owners_batch(samples))
        elif self.accumulate > 1:
            vector.gradients.mul_(self.accumulate)
        if self.max_norm is not None:
            clip_norm(vector.gradients, self.max_norm * self.loss_scale())
        self.clipping.apply(self.layout, vector)
        self.layout.publish(vector)
        give_sparse(self._gear.optimizer)
        self._optimizer_step(vector.gradients, samples - skipped)

    def _count(self, samples: int, *, nothing: bool) -> None:
        """The step is over, whether the optimizer has stepped or there was nothing to step on."""
        self.step += 1
        self.tick += 1
        if self._feed is not None:
            self._feed.advance(samples)
            if nothing:
                self._feed.skipped += 1
        if nothing:
            self.catching_up = True  # behind opt.step() nothing is to be done

    def _owners_batch(self, samples: int) -> int:
        """Samples of a step as the owner meant it: where the batch adapts, learning rates follow it instead."""
        adapts = self.adaptation is not None and self.settings.mode is Mode.ADAPTIVE
        return self.adaptation.settings.batch0 if adapts and self.adaptation is not None else samples

    def _fits(self, samples: int) -> bool:
        """Whether so many samples fit into memory, tried with inputs that were really seen."""
        return self.last_inputs is None or try_batch(self._gear.model, self.last_inputs, samples)

    def _optimizer_step(self, gradient: Tensor, samples: int) -> None:
        optimizer = self._gear.optimizer
        self.membership.yield_parameters()
        if self.adaptation is None:
            self.raw_step()
            self.membership.applied(self.step + 1, gradient, lambda: _settings_of(optimizer))
            return
        with self.adaptation.stepping(samples):
            settings = _settings_of(optimizer)
            self.raw_step()
        self.membership.applied(self.step + 1, gradient, lambda: settings)

    def _statistics(self, vector: GradientVector, table: Table) -> None:
        if self.adaptation is None or self.settings.mode is Mode.CONSISTENT:
            return
        self.adaptation.agreed = table.noise(self.adaptation.settings.batch0)
        statistics = self.adaptation.statistics
        if statistics.measuring:
            counts = [c for c in self._shares.counts if c]
            statistics.total(vector.gradients, self.loss_scale())
            statistics.finish(table.norms(), len(counts), self._shares.total, counts)
        statistics.set_stride(max(1, table.leader(Column.STRIDE)))

    def _compare(self, table: Table) -> None:
        different = table.diverging()
        if not different:
            return
        names = tuple(self.membership.name_of(rank) for rank in different)
        if self.membership.rank == 0:
            self.reporter.emit(DivergedEvent(self.reporter.wall(), self.step, names))
        text = f"the replicas of {', '.join(names)} differ from the others at step {self.step}"
        if self.settings.mode is Mode.CONSISTENT:
            raise Diverged(text)
        if self.membership.group is not None:
            # A group that breaks here shows at the next step.
            with contextlib.suppress(MembershipChanged):
                self.state.share(self.membership.group, 0)

    def from_leader(self, key: str, compute: Callable[[], Any]) -> Any:
        """The leader's result (JSON values), everywhere; computed again by the next leader if this one is lost.

        Results are kept under their ``key``: a worker that is finding its way back gets the one there was.
        """
        m, result, have = self.membership, None, False
        if not self.inside:
            self.meet_the_absent()
        while key not in self._told:
            if self.inside and self.skips.impossible():
                return compute()
            self.catching_up = False
            m.doing("evaluating", self.step)
            if m.rank == 0 and not have:
                result, have = compute(), True
            problem, began = "", time.perf_counter()
            try:
                if m.group is not None:
                    data = json.dumps(result).encode() if m.rank == 0 else None
                    result = json.loads(m.group.broadcast_bytes(data, 0))
            except MembershipChanged as error:
                problem = str(error)
            if not problem:
                self.tick += 1
                self._told = {**dict(list(self._told.items())[-_KEPT_RESULTS:]), key: result}
            else:
                m.recover(self, problem, time.perf_counter() - began)
                self.catching_up = key in self._told
        return self._told[key]

    def finish(self) -> None:
        """The end of training: nobody leaves while another may still need his part of the last step."""
        m = self.membership
        self._body_ends()
        m.doing("outside", self.step)
        self.meet_the_absent()
        if m.rank == 0:
            self.reporter.window(**self.facts())
        self._save(wait=True)
        m.finish(self.step)

    def state_dict(self) -> dict[str, Any]:
        """Position of the loop."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "tick": self.tick,
            "told": self._told,
            "total": self.agreement.total,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go there."""
        self.step, self.epoch, self.tick = int(state["step"]), int(state["epoch"]), int(state["tick"])
        self._told, self.agreement.total = dict(state["told"]), int(state["total"])


def clip_norm(gradient: Tensor, limit: float) -> None:
    """Scale a gradient down to this norm, if it is longer."""
    norm = torch.linalg.vector_norm(gradient)
    gradient.mul_(torch.clamp(limit / (norm + 1e-6), max=1.0))


def _settings_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
