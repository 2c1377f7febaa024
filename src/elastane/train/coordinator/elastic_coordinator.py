"""Decides who trains: one plan after the other, each with a higher generation.

A pure state machine: it is told what happened and when, and answers with actions.  No sockets, no processes,
no clock; the server around it owns those.  Everything it must not forget it asks to be recorded first, and
``adopt`` builds a new coordinator from such a log, while the workers go on training.

A change of members is prepared while the old generation trains, and entered when everybody is ready
(``membership_changes``).  A death ends the generation (``worker_deaths``): all members stop at their next collective,
say which step they applied last (``failed``), and the survivors enter an urgent plan.  ``deadlines`` looks for those
who say nothing, ``job_end`` for the end of training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from elastane.train.coordinator.actions import Action, Finish
from elastane.train.coordinator.cpu_activity import Effort
from elastane.train.coordinator.deadlines import Deadlines
from elastane.train.coordinator.job_end import JobEnd
from elastane.train.coordinator.membership_changes import MembershipChanges
from elastane.train.coordinator.membership_plan import Plan
from elastane.train.coordinator.memory_ceiling import MemoryCeiling
from elastane.train.coordinator.messages import Refused, Welcome, WorkerHello
from elastane.train.coordinator.outbox import Outbox
from elastane.train.coordinator.plan_entries import Entry, TargetSet, WorkerDone
from elastane.train.coordinator.replay import Known, counted, fitted, known_from
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.transitions import Adopting, Entering, Steady, Transition
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_deaths import WorkerDeaths
from elastane.train.coordinator.worker_registry import WorkerRegistry
from elastane.train.coordinator.worker_table import Phase, Worker, first_difference, virtual_ranks
from elastane.train.exit_cause import ExitCause, given_up
from elastane.train.transport_choice import UNTOLD, MemberDevice


class Coordinator:
    """Decides over the members of one adaptive job."""

    def __init__(
        self, settings: Settings, known: Known | None = None, transition: Transition | None = None
    ) -> None:
        """``known`` is what a log says of the job's past, ``transition`` where it is then."""
        known = known or Known()
        self.settings = settings
        self._out = out = Outbox()
        self._registry = registry = WorkerRegistry(known.workers, known.born)
        self._end = end = JobEnd(registry, out, known.outcome)
        self._memory = memory = MemoryCeiling(known.most)
        self._changes = changes = MembershipChanges(
            settings, registry, out, memory, known, transition or Steady()
        )
        self._worker_deaths = deaths = WorkerDeaths(settings, registry, out, changes, end, memory)
        self._deadlines = Deadlines(settings, registry, changes, deaths, end)

    # A new coordinator, for a job that ran before or still runs.

    @classmethod
    def after(cls, settings: Settings, entries: Iterable[Entry]) -> Coordinator:
        """Begin again where an earlier run ended: names and generations are never used twice."""
        entries = list(entries)
        born, published = counted(entries)
        return cls(settings, Known(born=born, published=published, most=fitted(entries)))

    @classmethod
    def adopt(cls, settings: Settings, entries: Iterable[Entry], now_s: float) -> Coordinator:
        """Continue from a log; workers get one lease to say hello again."""
        return cls(settings, known_from(entries), Adopting(now_s + settings.lease_s))

    # What anybody may know.

    @property
    def target(self) -> int:
        """How many workers there should be."""
        return self._changes.target

    @property
    def step(self) -> int:
        """The last step that a worker has told of."""
        return self._registry.step

    @property
    def workers(self) -> dict[str, Worker]:
        """Everybody, by name, the dead included."""
        return self._registry.workers

    @property
    def current(self) -> Plan | None:
        """Who trains, in rank order; None before the first start."""
        return self._changes.current

    @property
    def outcome(self) -> Finish | None:
        """How the job ended, once it has."""
        return self._end.outcome

    @property
    def settled(self) -> bool:
        """Whether as many workers train as are wanted, and no change is under way."""
        return self._changes.settled

    @property
    def staying(self) -> Sequence[str]:
        """Workers that train or will, and are not to leave; members first, in rank order."""
        members = self.current.members if self.current else ()
        useful = [worker.name for worker in self._changes.useful]
        return sorted(useful, key=lambda name: members.index(name) if name in members else len(members))

    def first_steps(self, now_s: float) -> tuple[str, float] | None:
        """Who has been longest in one of its first steps, and for how many seconds."""
        return self._deadlines.first_steps(now_s)

    def pace(self, step_s: float) -> None:
        """Hear what a step takes at present (from reports)."""
        self._deadlines.pace(step_s)

    # What is told from outside; each call answers with actions.

    def start(self, now_s: float) -> list[Action]:
        """Ask for the first workers."""
        self._out.record(TargetSet(self.target))
        return self._settle(now_s)

    def resize(self, workers: int, now_s: float, drop: Iterable[str] = ()) -> list[Action]:
        """From now on ``workers`` of them, without those in ``drop``."""
        self._changes.want(workers, drop)
        return self._settle(now_s)

    def stop(self, cause: ExitCause, now_s: float) -> list[Action]:
        """End the job; members leave at their next step boundary, newcomers at once: they have nothing to save."""
        self._changes.give_up()
        self._end.stop(cause)
        return self._settle(now_s)

    def hello(self, hello: WorkerHello, now_s: float) -> list[Action]:
        """A worker connects, for the first time or again."""
        name = hello.worker
        worker = self._registry.workers.get(name)
        if worker is None or not worker.alive:
            self._out.send(name, Refused("this worker is no longer part of the job"))
            return self._settle(now_s)
        worker.seen_s = now_s
        worker.node, worker.host = hello.node, hello.host
        self._out.send(name, Welcome(self.settings.lease_s))
        if isinstance(self._changes.transition, Adopting):
            worker.entered, worker.phase = hello.generation, hello.phase
            worker.signature, worker.stream, worker.device = hello.signature, hello.stream, hello.device
            worker.applied, worker.done = hello.applied, hello.done
        self._changes.say_again(name)
        return self._settle(now_s)

    def started(self, name: str, now_s: float) -> list[Action]:
        """A worker's process exists; from now on it has to come to its hello."""
        worker = self._registry.workers.get(name)
        if worker is not None:
            worker.started_s = now_s
        return self._settle(now_s)

    def ready(
        self,
        name: str,
        signature: Mapping[str, Any],
        stream: str,
        now_s: float,
        device: MemberDevice = UNTOLD,
        stored: int = 0,
    ) -> list[Action]:
        """A worker has built its model and may be planned in; checkpoints of generation ``stored`` are there."""
        worker = self._registry.seen(name, now_s)
        if worker is None or worker.phase is not Phase.WARMING:
            return self._settle(now_s)
        self._changes.go_on_above(stored)
        limit = virtual_ranks(signature)
        reference = self._registry.reference()
        problem = first_difference(signature, reference) if reference else None
        if problem is not None:
            cause = f"worker {name} {problem}"
            self._changes.warn(cause)
            self._out.send(name, Refused(cause))
            worker.words = cause
            if self.current is None:
                self._end.fail(given_up(cause))
            return self._settle(now_s)
        worker.phase, worker.signature, worker.stream = Phase.READY, signature, stream
        worker.device = device
        worker.ready_s = now_s
        self._changes.cap(limit)
        return self._settle(now_s)

    def built(self, name: str, generation: int, now_s: float, lacking: str = "") -> list[Action]:
        """A worker has connected the group of a plan that is being prepared; ``lacking``: but no communicator."""
        worker = self._registry.seen(name, now_s)
        if worker is not None and lacking:
            self._changes.without_communicator(worker, generation, lacking)
        elif worker is not None:
            worker.built = max(worker.built, generation)
        return self._settle(now_s)

    def caught_up(self, name: str, generation: int, now_s: float) -> list[Action]:
        """A joiner's state follows the training at most a step behind."""
        worker = self._registry.seen(name, now_s)
        if worker is not None:
            worker.caught_up = max(worker.caught_up, generation)
        return self._settle(now_s)

    def lagging(self, name: str, generation: int, why: str, now_s: float) -> list[Action]:
        """A shadow join cannot keep up (or cannot work): do it again with a plain copy."""
        match self._changes.transition:
            case Entering(plan) if plan.generation == generation and name in plan.joiners:
                return self.failed(name, generation, None, why, now_s)  # the others are entering without it
        self._changes.copy_plainly(generation, f"worker {name} joins by a plain copy of the state: {why}")
        return self._settle(now_s)

    def entered(self, name: str, generation: int, step: int, now_s: float) -> list[Action]:
        """A worker trains in this generation."""
        worker = self._registry.seen(name, now_s)
        if worker is not None and worker.alive:
            if generation > worker.entered:  # parts of a batch may have other sizes now: compiled again
                worker.entered, worker.effort = generation, Effort()
            worker.phase, worker.joined = Phase.MEMBER, worker.joined or generation
            self._registry.progressed(step)
        return self._settle(now_s)

    def failed(self, name: str, generation: int, applied: int | None, why: str, now_s: float) -> list[Action]:
        """A worker's generation is over for it; ``applied`` is None if it holds no complete state."""
        worker = self._registry.seen(name, now_s)
        if worker is None or not worker.alive:
            return self._settle(now_s)
        worker.parked = max(worker.parked, generation)
        if applied is None:
            worker.phase = Phase.READY
        else:
            worker.phase, worker.applied = Phase.MEMBER, applied
        recovers, current = self._changes.recovers, self.current
        over = self._changes.generations.published if recovers or current is None else current.generation
        if generation >= over:
            if not recovers:
                self._changes.communicators.broke(current)
            self._changes.end_generation(why)
        return self._settle(now_s)

    def apart(self, name: str, generation: int, why: str, now_s: float) -> list[Action]:
        """A worker could not connect the group of an urgent plan; its ``failed`` follows."""
        plan = self._changes.under_way
        if plan is not None and plan.generation == generation and name in self.workers:
            self._worker_deaths.apart(name, plan, why)
        return self._settle(now_s)

    def parts(self, name: str, samples: int, now_s: float) -> list[Action]:
        """A worker is about to compute parts of steps with so many samples; 0: forget what it said."""
        worker = self._registry.seen(name, now_s)
        if worker is not None:
            worker.samples = samples
        return self._settle(now_s)

    def strayed(self, name: str, now_s: float) -> list[Action]:
        """A newcomer was in another loop of the script than the others."""
        self._registry.seen(name, now_s)
        self._changes.join_at_loops()
        return self._settle(now_s)

    def loop_begins(self, name: str, generation: int, now_s: float) -> list[Action]:
        """Members stand where a loop begins, and are prepared for this generation."""
        self._registry.seen(name, now_s)
        self._changes.loop_begins(name, generation, now_s)
        return self._settle(now_s)

    def left(self, name: str, now_s: float) -> list[Action]:
        """A worker has passed the boundary at which its plan lets it go, and will exit."""
        worker = self._registry.seen(name, now_s)
        if worker is not None and worker.alive:
            worker.phase = Phase.LEAVING
        return self._settle(now_s)

    def beat(
        self, name: str, step: int, doing: Activity, now_s: float, cpu_s: float | None = None
    ) -> list[Action]:
        """A sign of life, about twice a second; in its first steps a worker tells what it has computed."""
        worker = self._registry.seen(name, now_s)
        if worker is not None:
            worker.effort.hear(step, doing, cpu_s, now_s)
        if worker is not None and (worker.beat.step, worker.beat.doing) != (step, doing):
            worker.beat.step, worker.beat.doing, worker.beat.since_s = step, doing, now_s
            self._registry.progressed(step)
        return self._settle(now_s)

    def done(self, name: str, step: int, now_s: float) -> list[Action]:
        """A worker has come to the end of training."""
        worker = self._registry.seen(name, now_s)
        if worker is not None:
            if not worker.done:
                self._out.record(WorkerDone(name))
                worker.beat.since_s = now_s
            worker.done = True
            worker.beat.step = step
            self._registry.progressed(step)
            self._changes.give_up()
        return self._settle(now_s)

    def said_goodbye(self, name: str, cause: str) -> None:
        """A worker tells what ends it, before it ends."""
        if name in self.workers:
            self.workers[name].words = cause

    def exited(self, name: str, cause: ExitCause, now_s: float) -> list[Action]:
        """A worker's process is gone, or cannot come back."""
        worker = self._registry.workers.get(name)
        if worker is not None and worker.alive:
            self._worker_deaths.exited(worker, cause)
        return self._settle(now_s)

    def tick(self, now_s: float) -> list[Action]:
        """Time has passed: leases, hangs, deadlines."""
        self._deadlines.look(now_s)
        return self._settle(now_s)

    def _settle(self, now_s: float) -> list[Action]:
        if self.outcome is None and self._changes.adopted(now_s):
            if self._changes.complete():
                self._worker_deaths.all_connected()
            if self.outcome is None and not self._end.reached(recovers=self._changes.recovers):
                if self._changes.broken:
                    self._changes.recover(now_s)
                if not self._changes.recovers and not self._end.stopping:
                    deaths = self._worker_deaths.any_since_last_step
                    replacing = not deaths or self.settings.replace or self.current is None
                    self._changes.advance(now_s, replacing=replacing)
        return self._out.take()
