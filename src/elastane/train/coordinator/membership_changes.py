"""``MembershipChanges`` publishes plans, and sees each through until it has been entered, given up, or has broken.

The states between two plans are those of ``transitions``; who shall train next is worked out by ``planning``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from elastane.train.coordinator.actions import UNTIMED_S, Spawn
from elastane.train.coordinator.communicators import Communicators
from elastane.train.coordinator.generations import Generations
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.memory_ceiling import MemoryCeiling
from elastane.train.coordinator.messages import Aborted, Cancelled, Go, Note, Planned, Prepared, Settled
from elastane.train.coordinator.outbox import Outbox
from elastane.train.coordinator.plan_entries import (
    GenerationsStored,
    LoopsCounted,
    PlanMade,
    TargetSet,
    WorkerGone,
    WorkerSpawned,
)
from elastane.train.coordinator.planning import change_plan, recovery_plan, start_plan, wanted_change
from elastane.train.coordinator.replay import Known
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.transitions import (
    Abandoned,
    Adopting,
    Entering,
    Preparing,
    Recovering,
    Steady,
    Transition,
    broken,
    recovers,
    under_way,
)
from elastane.train.coordinator.worker_registry import WorkerRegistry
from elastane.train.coordinator.worker_table import Phase, Worker
from elastane.train.reports.events import Warned

_AT_LOOPS = (
    "a worker that joined in the middle of a loop over job.loader(...) left it at another step than the others: from "
    "now on workers join where a loop begins; limit loops by data.steps, and they join at any step"
)


class MembershipChanges:
    """The present plan of one job, the change that is under way, and how many workers are wanted."""

    def __init__(
        self,
        settings: Settings,
        registry: WorkerRegistry,
        outbox: Outbox,
        memory: MemoryCeiling,
        known: Known,
        transition: Transition,
    ) -> None:
        self.target = settings.workers if known.target is None else known.target
        self.current = known.current
        self.transition = transition
        self.generations = Generations(known.published, known.stored)
        self.communicators = Communicators(settings.transport)
        self._settings = settings
        self._registry = registry
        self._out = outbox
        self._memory = memory
        self._published_s = 0.0
        self._dropped: set[str] = set()
        self._at_loops = known.counts

    @property
    def under_way(self) -> Plan | None:
        """The plan that is being prepared or entered."""
        return under_way(self.transition)

    @property
    def recovers(self) -> bool:
        """Whether a generation has broken, and the one that follows it has not begun."""
        return recovers(self.transition)

    @property
    def broken(self) -> bool:
        """Whether a generation has broken, and there is no plan yet for the one that follows it."""
        return broken(self.transition)

    @property
    def settled(self) -> bool:
        """Whether as many workers train as are wanted, and no change is under way."""
        idle = self.under_way is None and not self.recovers
        return idle and self.current is not None and len(self.current.members) == self.target

    @property
    def useful(self) -> Sequence[Worker]:
        """Workers that train or will, and are not to leave."""
        return [w for w in self._registry.alive if w.useful and w.name not in self._dropped]

    def warn(self, text: str) -> None:
        """Tell whoever reads the reports, and whoever reads the leader's log."""
        self._out.tell(Warned(UNTIMED_S, text))
        if self.current is not None and self._registry[self.current.members[0]].alive:
            self._out.send(self.current.members[0], Note(text))

    # What is wanted.

    def want(self, workers: int, drop: Iterable[str] = ()) -> None:
        """From now on ``workers`` of them, without those in ``drop``."""
        limit = self._settings.max_workers
        self.target = max(1, workers if limit is None else min(workers, limit))
        for name in drop:
            worker = self._registry.workers.get(name)
            if worker is not None and worker.phase in (Phase.WARMING, Phase.READY):
                worker.phase = Phase.GONE
                self._out.record(WorkerGone(name))
                self._out.kill(name, "no longer wanted")
            else:
                self._dropped.add(name)
        self._out.record(TargetSet(self.target))
        match self.transition:
            case Preparing(plan) if plan.at_loop:  # nobody waits for a loop that may be long
                self.give_up()

    def cap(self, virtual_ranks: int) -> None:
        """No more workers than there are virtual ranks to share; 0: the job has none."""
        if virtual_ranks and self.target > virtual_ranks:
            self.warn(
                f"{self.target} workers were asked for, but there are {virtual_ranks} virtual ranks to share"
            )
            self.target = virtual_ranks

    def go_on_above(self, stored: int) -> None:
        """Begin no generation below what was stored, although this log does not know of it."""
        if self.generations.found_stored(stored):
            self._out.record(GenerationsStored(self.generations.stored))

    def join_at_loops(self) -> None:
        """From now on newcomers come where a loop over the data begins, so that they count as the others do."""
        if not self._at_loops:
            self._at_loops = True
            self._out.record(LoopsCounted())
            self.warn(_AT_LOOPS)

    # From one plan to the next.

    def advance(self, now_s: float, *, replacing: bool) -> None:
        """Go on from a plan that is prepared; start whoever is missing, if ``replacing``; plan the next change."""
        if isinstance(self.transition, Preparing) and self.current is not None:
            self._go(self.transition, self.current.members[0], now_s)
        for _ in range(self.target - len(self.useful) if replacing else 0):
            worker = self._registry.add()
            self._out.record(WorkerSpawned(worker.name))
            self._out.add(Spawn(worker.name))
        if self.under_way is not None:
            return
        if self.current is None:
            self._begin(now_s)
        else:
            plain_copy = isinstance(self.transition, Steady) and self.transition.plain_copy
            self._change(self.current, now_s, plain_copy=plain_copy)

    def _begin(self, now_s: float) -> None:
        ready = self._registry.in_phase(Phase.READY)[: self.target]
        warming = self._registry.in_phase(Phase.WARMING)
        if ready and (len(ready) == self.target or not warming):
            self._publish(start_plan(self.generations.following, ready), now_s)

    def _change(self, current: Plan, now_s: float, *, plain_copy: bool) -> None:
        workers, following = self._registry.workers, self.generations.following
        wanted = wanted_change(current, workers, self.target, self._dropped, plain_copy=plain_copy)
        change = wanted.leaving_first() if self._at_loops else wanted
        for worker in change.surplus:
            worker.phase = Phase.GONE
            self._out.kill(worker.name, "no longer wanted")
        patience_s = self._settings.join_patience_s
        waits = change is wanted and change.waits(self.target, now_s, patience_s)
        # What waits for a loop may wait long: nobody stays on the transport of a recovery until then.
        grows_at_loop = self._at_loops and bool(change.joiners) and not change.leavers
        first = self.communicators.rebuilding(following, current, workers) if grows_at_loop else None
        if first is not None:
            self._publish(first, now_s, plain_copy=plain_copy)
        elif not waits and (change.joiners or change.leavers):
            shadow, at_loop = self._settings.shadow, self._at_loops
            plan = change_plan(following, change, shadow=shadow, plain_copy=plain_copy, at_loop=at_loop)
            self._publish(plan, now_s, plain_copy=plain_copy)
        elif not waits or now_s - self._published_s >= patience_s:
            # Who comes soon brings a new transport anyway.
            rebuilt = self.communicators.rebuilding(following, current, workers)
            if rebuilt is not None:
                self._publish(rebuilt, now_s, plain_copy=plain_copy)

    def _publish(self, plan: Plan, now_s: float, *, plain_copy: bool = False) -> None:
        plan = replace(self.communicators.planned(plan, self._registry.workers), most=self._memory.most)
        for note in self.communicators.notes():
            self.warn(note)
        self._published_s = now_s
        self.transition = Entering(plan, now_s) if plan.urgent else Preparing(plan, now_s, plain_copy)
        self.generations.publish(plan.generation)
        self._out.record(PlanMade(plan))
        for name in plan.concerned:
            if name in plan.joiners or plan.kind is Kind.START:
                self._registry[name].phase = Phase.JOINING
            self._out.send(name, Planned(plan))

    def _go(self, preparing: Preparing, leader: str, now_s: float) -> None:
        """Let the leader name the boundary once everybody is prepared."""
        plan = preparing.plan
        everybody = all(self._registry[n].built >= plan.generation for n in plan.members)
        followed = not plan.shadow or all(self._registry[n].caught_up >= plan.generation for n in plan.joiners)
        if not (everybody and followed) or preparing.prepared:
            return
        if plan.at_loop:
            self.transition = replace(preparing, prepared=True)
            self._out.send(leader, Prepared(plan.generation))
        else:
            self.transition = Entering(plan, now_s)
            self._out.send(leader, Go(plan.generation))

    def loop_begins(self, worker: str, generation: int, now_s: float) -> None:
        """The members stand where a loop begins: they enter the plan, unless it was given up; each may ask again."""
        match self.transition:
            case Preparing(plan, prepared=True) if plan.generation == generation:
                self.transition = Entering(plan, now_s)
                for name in plan.concerned:
                    self._out.send(name, Go(generation))
            case Entering(plan) if plan.generation == generation:
                self._out.send(worker, Go(generation))
            case _ if self.current is None or self.current.generation < generation:
                self._out.send(worker, Cancelled(generation))

    def say_again(self, worker: str) -> None:
        """Repeat to a leader that has come back what only it is told of a plan, which may have been lost."""
        match self.transition:
            case Preparing(plan, prepared=True) if self.current and self.current.members[0] == worker:
                self._out.send(worker, Prepared(plan.generation))

    def complete(self) -> bool:
        """Whether a plan has just become the present one: all its members have entered it."""
        plan = self.under_way
        if plan is None:
            return False
        members = [self._registry[name] for name in plan.members]
        if not all(w.alive and w.entered >= plan.generation for w in members):
            return False
        if any(self._registry[n].phase is Phase.MEMBER for n in plan.leavers):
            return False
        self.transition, self.current = Steady(), plan
        self._dropped -= set(plan.leavers)
        for name in (*plan.members, *plan.leavers):
            if self._registry[name].alive:
                self._out.send(name, Settled(plan.generation))
        return True

    # What goes wrong with a plan.

    def give_up(self) -> None:
        """Drop a plan that nobody needs any more.  One that is being entered at a boundary is beyond that."""
        match self.transition:
            case Preparing(plan, _, plain_copy):
                self._cancel(plan, plain_copy=plain_copy)
            case Entering(plan) if plan.urgent:
                self.transition = Abandoned(plan.kind)

    def copy_plainly(self, generation: int, why: str) -> None:
        """Prepare this change anew without a shadow join, if it is still being prepared."""
        match self.transition:
            case Preparing(plan) if plan.generation == generation:
                self.warn(why)
                self._cancel(plan, plain_copy=True)

    def without_communicator(self, worker: Worker, generation: int, why: str) -> None:
        """A member of a plan that is being prepared cannot have its communicator: it is planned again without."""
        self.communicators.refused(worker, why)
        match self.transition:
            case Preparing(plan, _, plain_copy) if plan.generation == generation:
                self._cancel(plan, plain_copy=plain_copy)

    def look_at_deadline(self, now_s: float) -> Plan | None:
        """Give up a plan that cannot be prepared; one that should have been entered by now is returned."""
        match self.transition:
            case Preparing(plan, since_s, prepared=False) if now_s - since_s > self._settings.prepare_s:
                limit_s = self._settings.prepare_s
                self.warn(f"generation {plan.generation} could not be prepared in {limit_s:g} s")
                self.communicators.late(plan, self._registry.workers)
                self._cancel(plan, plain_copy=plan.shadow)
            case Entering(plan, since_s) if now_s - since_s > self._settings.enter_s:
                self.transition = Entering(plan, now_s)
                return plan
        return None

    def _cancel(self, plan: Plan, *, plain_copy: bool) -> None:
        """Nobody has entered this plan yet: the old generation simply goes on."""
        self.transition = Steady(plain_copy)
        for name in plan.concerned:
            worker = self._registry[name]
            if worker.alive:
                self._out.send(name, Cancelled(plan.generation))
                if worker.phase is Phase.JOINING:
                    worker.phase = Phase.READY

    def end_generation(self, why: str) -> None:
        """End the present generation for everybody who is in it or about to enter the next one."""
        match self.transition:
            case Adopting(until_s):
                self.transition = Adopting(until_s, broken=True)
            case Preparing(plan):
                self._cancel(plan, plain_copy=False)
                self.transition = Recovering()
            case _:
                self.transition = Recovering()
        for worker in self._registry.in_phase(Phase.MEMBER, Phase.JOINING):
            if not worker.done:
                self._out.send(worker.name, Aborted(self.generations.published, why))

    def recover(self, now_s: float) -> None:
        """Once all who are left of a broken generation have stopped, give them an urgent plan."""
        involved = [w for w in self._registry.in_phase(Phase.MEMBER, Phase.JOINING) if not w.done]
        if any(w.parked < self.generations.published for w in involved):
            return
        if involved:
            self._publish(recovery_plan(self.generations.following, involved, self.current), now_s)
        else:
            self.transition, self.current = Steady(), None

    # After a coordinator before this one.

    def adopted(self, now_s: float) -> bool:
        """Whether everybody who may come back has done so; then the state is judged."""
        adopting = self.transition
        if not isinstance(adopting, Adopting):
            return True
        missing = [w for w in self._registry.alive if not w.seen_s]
        if missing and now_s < adopting.until_s:
            return False
        self.transition = Recovering() if adopting.broken else Steady()
        for worker in missing:
            # Even of one that had done its training nobody knows how it ended: its end is repeated.
            worker.phase, worker.done = Phase.GONE, False
            self._out.kill(worker.name, "did not come back")
        plan, members = self.current, self._registry.in_phase(Phase.MEMBER)
        agreed = plan is not None and [w.name for w in members if w.entered == plan.generation]
        if plan is None or not members:
            self.current = None
        elif sorted(agreed or ()) != sorted(plan.members):
            self.end_generation("the coordinator was restarted during a change of members")
        return True
