"""Decides who trains: one plan after the other, each with a higher generation.

A pure state machine: it is told what happened and when, and answers with actions.  No sockets, no processes,
no clock; the server around it owns those.  Everything it must not forget it asks to be recorded first, and
``adopt`` builds a new coordinator from such a log, while the workers go on training.

A change of members is prepared while the old generation trains, and entered when everybody is ready
(``transitions``).  A death ends the generation: all members stop at their next collective, say which step they applied
last (``failed``), and the survivors enter an urgent plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from elastane.train.coordinator.actions import UNTIMED_S, Action, Emit, Finish, Kill, Record, Send, Spawn
from elastane.train.coordinator.communicators import Communicators
from elastane.train.coordinator.cpu_activity import Effort
from elastane.train.coordinator.hang_detection import first_steps
from elastane.train.coordinator.liveness import desertion, hanging, late, left_early, silence, unheard
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.memory_ceiling import Halved, Hopeless, MemoryCeiling
from elastane.train.coordinator.messages import (
    Aborted,
    Cancelled,
    Go,
    Note,
    Over,
    Planned,
    Refused,
    Settled,
    StopTraining,
    ToWorker,
    Welcome,
    WorkerHello,
)
from elastane.train.coordinator.plan_entries import (
    Entry,
    GenerationsStored,
    JobEnded,
    MemoryLimited,
    PlanMade,
    TargetSet,
    WorkerDone,
    WorkerGone,
    WorkerSpawned,
)
from elastane.train.coordinator.planning import change_plan, recovery_plan, start_plan, wanted_change
from elastane.train.coordinator.replay import counted, fitted, known_from
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
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase, Worker, first_difference, virtual_ranks
from elastane.train.exit_cause import FINISHED, ExitCause, ExitKind, given_up
from elastane.train.reports.events import Limited, Warned, WorkerLost
from elastane.train.transport_choice import UNTOLD, MemberDevice

_LATEST_STORED = 2**50
"""What a worker tells of later generations is nonsense."""
_UNWRITTEN = 1000
"""Changes of members since the last checkpoint: what an earlier run may have seen at most."""


class Coordinator:
    """Decides over the members of one adaptive job."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.target = settings.workers
        self.workers: dict[str, Worker] = {}
        self.current: Plan | None = None
        self.outcome: Finish | None = None
        self.step = 0
        self._transition: Transition = Steady()
        self._communicators = Communicators(settings.transport)
        self._memory = MemoryCeiling()
        self._published = 0
        self._stored = 0
        self._published_s = 0.0
        self._dropped: set[str] = set()
        self._let_gone: set[str] = set()
        self._born = 0
        self._deaths = 0
        self._death_step = -1
        self._unborn_words = ""
        self._apart = 0
        self._apart_generation = 0
        self._stopping: ExitCause | None = None
        self._step_s = 0.0
        self._out: list[Action] = []

    @property
    def settled(self) -> bool:
        """Whether as many workers train as are wanted, and no change is under way."""
        return (
            self.current is not None
            and under_way(self._transition) is None
            and not recovers(self._transition)
            and len(self.current.members) == self.target
        )

    @property
    def staying(self) -> Sequence[str]:
        """Workers that train or will, and are not to leave; members first, in rank order."""
        members = self.current.members if self.current else ()
        useful = [w.name for w in self._alive() if w.useful and w.name not in self._dropped]
        return sorted(useful, key=lambda name: members.index(name) if name in members else len(members))

    # What is told from outside; each call answers with actions.

    def start(self, now_s: float) -> list[Action]:
        """Ask for the first workers."""
        self._out.append(Record(TargetSet(self.target)))
        return self._settle(now_s)

    def resize(self, workers: int, now_s: float, drop: Iterable[str] = ()) -> list[Action]:
        """From now on ``workers`` of them, without those in ``drop``."""
        limit = self.settings.max_workers
        self.target = max(1, workers if limit is None else min(workers, limit))
        for name in drop:
            worker = self.workers.get(name)
            if worker is not None and worker.phase in (Phase.WARMING, Phase.READY):
                worker.phase = Phase.GONE
                self._out += [Record(WorkerGone(name)), Kill(name, "no longer wanted")]
            else:
                self._dropped.add(name)
        self._out.append(Record(TargetSet(self.target)))
        return self._settle(now_s)

    def stop(self, cause: ExitCause, now_s: float) -> list[Action]:
        """End the job; members leave at their next step boundary, newcomers at once: they have nothing to save."""
        self._stopping = cause
        self._give_up_plan()
        for worker in self._alive():
            if worker.phase in (Phase.WARMING, Phase.READY):
                worker.phase = Phase.GONE
                self._out += [Record(WorkerGone(worker.name)), Kill(worker.name, str(cause))]
            else:
                self._send(worker.name, StopTraining(str(cause)))
        return self._settle(now_s)

    def hello(self, hello: WorkerHello, now_s: float) -> list[Action]:
        """A worker connects, for the first time or again."""
        name = hello.worker
        worker = self.workers.get(name)
        if worker is None or not worker.alive:
            self._send(name, Refused("this worker is no longer part of the job"))
            return self._settle(now_s)
        worker.seen_s = now_s
        worker.node, worker.host = hello.node, hello.host
        self._send(name, Welcome(self.settings.lease_s))
        if isinstance(self._transition, Adopting):
            worker.entered, worker.phase = hello.generation, hello.phase
            worker.signature, worker.stream, worker.device = hello.signature, hello.stream, hello.device
            worker.applied, worker.done = hello.applied, hello.done
        return self._settle(now_s)

    def started(self, name: str, now_s: float) -> list[Action]:
        """A worker's process exists; from now on it has to come to its hello."""
        worker = self.workers.get(name)
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
        worker = self._seen(name, now_s)
        if worker is None or worker.phase is not Phase.WARMING:
            return self._settle(now_s)
        self._go_on_above(stored)
        limit = virtual_ranks(signature)
        reference = self._reference()
        problem = first_difference(signature, reference) if reference else None
        if problem is not None:
            cause = f"worker {name} {problem}"
            self._warn(cause)
            self._send(name, Refused(cause))
            worker.words = cause
            if self.current is None:
                self._fail(given_up(cause))
            return self._settle(now_s)
        worker.phase, worker.signature, worker.stream = Phase.READY, signature, stream
        worker.device = device
        worker.ready_s = now_s
        if limit and self.target > limit:
            self._warn(f"{self.target} workers were asked for, but there are {limit} virtual ranks to share")
            self.target = limit
        return self._settle(now_s)

    def _go_on_above(self, stored: int) -> None:
        """Begin no generation below what was stored, although this log does not know of it: it would never be read."""
        if self._latest < stored <= _LATEST_STORED:
            # A run whose log was lost may have come further than it has written, and may still be at it.
            self._stored = stored + _UNWRITTEN
            self._out.append(Record(GenerationsStored(self._stored)))

    @property
    def _latest(self) -> int:
        """The latest generation that anybody knows of; the next plan's is above it."""
        return max(self._published, self._stored)

    def built(self, name: str, generation: int, now_s: float, lacking: str = "") -> list[Action]:
        """A worker has connected the group of a plan that is being prepared; ``lacking``: but no communicator."""
        worker = self._seen(name, now_s)
        if worker is not None and lacking:
            self._without_communicator(worker, generation, lacking)
        elif worker is not None:
            worker.built = max(worker.built, generation)
        return self._settle(now_s)

    def _without_communicator(self, worker: Worker, generation: int, why: str) -> None:
        self._communicators.refused(worker, why)
        match self._transition:
            case Preparing(plan, _, plain_copy) if plan.generation == generation:
                self._cancel(plan, plain_copy=plain_copy)

    def caught_up(self, name: str, generation: int, now_s: float) -> list[Action]:
        """A joiner's state follows the training at most a step behind."""
        worker = self._seen(name, now_s)
        if worker is not None:
            worker.caught_up = max(worker.caught_up, generation)
        return self._settle(now_s)

    def lagging(self, name: str, generation: int, why: str, now_s: float) -> list[Action]:
        """A shadow join cannot keep up (or cannot work): do it again with a plain copy."""
        match self._transition:
            case Preparing(plan) if plan.generation == generation:
                self._warn(f"worker {name} joins by a plain copy of the state: {why}")
                self._cancel(plan, plain_copy=True)
            case Entering(plan) if plan.generation == generation and name in plan.joiners:
                return self.failed(name, generation, None, why, now_s)  # the others are entering without it
        return self._settle(now_s)

    def entered(self, name: str, generation: int, step: int, now_s: float) -> list[Action]:
        """A worker trains in this generation."""
        worker = self._seen(name, now_s)
        if worker is not None and worker.alive:
            if generation > worker.entered:  # parts of a batch may have other sizes now: compiled again
                worker.entered, worker.effort = generation, Effort()
            worker.phase = Phase.MEMBER
            self._progressed(step)
        return self._settle(now_s)

    def failed(self, name: str, generation: int, applied: int | None, why: str, now_s: float) -> list[Action]:
        """A worker's generation is over for it; ``applied`` is None if it holds no complete state."""
        worker = self._seen(name, now_s)
        if worker is None or not worker.alive:
            return self._settle(now_s)
        worker.parked = max(worker.parked, generation)
        if applied is None:
            worker.phase = Phase.READY
        else:
            worker.phase, worker.applied = Phase.MEMBER, applied
        after = None if recovers(self._transition) else self.current
        ends = self._published if after is None else after.generation
        if generation >= ends:
            if not recovers(self._transition):
                self._communicators.broke(self.current)
            self._break(why)
        return self._settle(now_s)

    def apart(self, name: str, generation: int, why: str, now_s: float) -> list[Action]:
        """A worker could not connect the group of an urgent plan; its ``failed`` follows."""
        plan = under_way(self._transition)
        if plan is None or plan.generation != generation or self._apart_generation == generation:
            return self._settle(now_s)  # it is over anyway, or another has said so before
        if name not in self.workers:
            return self._settle(now_s)
        self._apart, self._apart_generation = self._apart + 1, generation
        cause = self._who_is_apart(name, plan, why)
        self._warn(cause)
        if self._apart >= self.settings.max_apart:
            self._apart = 0
            if plan.kind is Kind.START:
                self._fail(given_up(cause))
            else:
                self._fence(self.workers[name], cause)
        return self._settle(now_s)

    def _who_is_apart(self, name: str, plan: Plan, why: str) -> str:
        def at(worker: str) -> str:
            return f"{worker} at {self.workers[worker].host or 'an address it did not tell'}"

        others = [at(other) for other in plan.members if other != name]
        rest = f" and {len(others) - 3} others" if len(others) > 3 else ""
        return f"worker {at(name)} could not be connected with {', '.join(others[:3])}{rest}: {why}"

    def parts(self, name: str, samples: int, now_s: float) -> list[Action]:
        """A worker is about to compute parts of steps with so many samples; 0: forget what it said."""
        worker = self._seen(name, now_s)
        if worker is not None:
            worker.samples = samples
        return self._settle(now_s)

    def left(self, name: str, now_s: float) -> list[Action]:
        """A worker has passed the boundary at which its plan lets it go, and will exit."""
        worker = self._seen(name, now_s)
        if worker is not None and worker.alive:
            worker.phase = Phase.LEAVING
        return self._settle(now_s)

    def beat(
        self, name: str, step: int, doing: Activity, now_s: float, cpu_s: float | None = None
    ) -> list[Action]:
        """A sign of life, about twice a second; in its first steps a worker tells what it has computed."""
        worker = self._seen(name, now_s)
        if worker is not None:
            worker.effort.hear(step, doing, cpu_s, now_s)
        if worker is not None and (worker.beat.step, worker.beat.doing) != (step, doing):
            worker.beat.step, worker.beat.doing, worker.beat.since_s = step, doing, now_s
            self._progressed(step)
        return self._settle(now_s)

    def done(self, name: str, step: int, now_s: float) -> list[Action]:
        """A worker has come to the end of training."""
        worker = self._seen(name, now_s)
        if worker is not None:
            if not worker.done:
                self._out.append(Record(WorkerDone(name)))
            worker.done = True
            worker.beat.step = step
            self._progressed(step)
            self._give_up_plan()
        return self._settle(now_s)

    def said_goodbye(self, name: str, cause: str) -> None:
        """A worker tells what ends it, before it ends."""
        if name in self.workers:
            self.workers[name].words = cause

    def exited(self, name: str, cause: ExitCause, now_s: float) -> list[Action]:
        """A worker's process is gone, or cannot come back."""
        worker = self.workers.get(name)
        if worker is None or not worker.alive:
            return self._settle(now_s)
        phase, worker.phase = worker.phase, Phase.GONE
        cause = cause.told(worker.words)
        clean = cause.clean and not worker.words
        if clean and (worker.done or phase is not Phase.MEMBER or self._stopping):
            return self._settle(now_s)
        if worker.done and not worker.words and cause.kind in (ExitKind.NODE_LOST, ExitKind.SIGNAL):
            self._killed_after_training(worker, phase, cause)
        elif worker.done:
            self._fail(_failing(cause).told(f"worker {name} failed after training: {cause}"))
        elif clean:
            others = sum(w.phase is Phase.MEMBER and not w.done for w in self._alive())
            self._fail(given_up(left_early(name, self.step, others)))
        else:
            if self.current is None and not worker.seen_s and worker.words:
                self._died_before_init(worker)
            self._lost(worker, phase, _failing(cause))
        return self._settle(now_s)

    def tick(self, now_s: float) -> list[Action]:
        """Time has passed: leases, hangs, deadlines."""
        self._look_for_silence(now_s)
        stuck = None if broken(self._transition) else hanging(self._alive(), self.settings, self._step_s, now_s)
        if stuck is not None:
            self._fence(*stuck)
        deserted = desertion(self._alive(), self.settings, now_s)
        if deserted is not None:
            self._fail(given_up(deserted))
        self._look_at_deadline(now_s)
        return self._settle(now_s)

    # A new coordinator, for a job that ran before or still runs.

    @classmethod
    def after(cls, settings: Settings, entries: Iterable[Entry]) -> Coordinator:
        """Begin again where an earlier run ended: names and generations are never used twice."""
        self = cls(settings)
        known = list(entries)
        self._born, self._published = counted(known)
        self._memory.most = fitted(known)
        return self

    @classmethod
    def adopt(cls, settings: Settings, entries: Iterable[Entry], now_s: float) -> Coordinator:
        """Continue from a log; workers get one lease to say hello again."""
        self, known = cls(settings), known_from(entries)
        if known.target is not None:
            self.target = known.target
        self.workers, self.current, self.outcome = known.workers, known.current, known.outcome
        self._born, self._published, self._stored = known.born, known.published, known.stored
        self._memory.most = known.most
        self._transition = Adopting(now_s + settings.lease_s)
        return self

    def _adopt_done(self, now_s: float) -> bool:
        """Whether everybody who may come back has done so; then the state is judged."""
        adopting = self._transition
        if not isinstance(adopting, Adopting):
            return True
        missing = [w for w in self._alive() if not w.seen_s]
        if missing and now_s < adopting.until_s:
            return False
        self._transition = Recovering() if adopting.broken else Steady()
        for worker in missing:
            # Even of one that had done its training nobody knows how it ended: its end is repeated.
            worker.phase, worker.done = Phase.GONE, False
            self._out.append(Kill(worker.name, "did not come back"))
        plan = self.current
        members = [w for w in self._alive() if w.phase is Phase.MEMBER]
        agreed = plan is not None and [w.name for w in members if w.entered == plan.generation]
        if plan is None or not members:
            self.current = None
        elif sorted(agreed or ()) != sorted(plan.members):
            self._break("the coordinator was restarted during a change of members")
        return True

    # Inside.

    def _settle(self, now_s: float) -> list[Action]:
        if self.outcome is None and self._adopt_done(now_s):
            self._complete()
            if self.outcome is None and not self._finished():
                if broken(self._transition):
                    self._recover(now_s)
                if not recovers(self._transition) and not self._stopping:
                    self._advance(now_s)
        actions, self._out = self._out, []
        return actions

    def _alive(self) -> Sequence[Worker]:
        return [worker for worker in self.workers.values() if worker.alive]

    def _seen(self, name: str, now_s: float) -> Worker | None:
        worker = self.workers.get(name)
        if worker is not None:
            worker.seen_s = now_s
        return worker

    def _send(self, name: str, message: ToWorker) -> None:
        self._out.append(Send(name, message))

    def _warn(self, text: str) -> None:
        self._out.append(Emit(Warned(UNTIMED_S, text)))
        if self.current is not None and self.workers[self.current.members[0]].alive:
            self._send(self.current.members[0], Note(text))

    def _reference(self) -> Mapping[str, Any] | None:
        known = (w.signature for w in self._alive() if w.phase is not Phase.WARMING and w.signature)
        return next(known, None)

    def _progressed(self, step: int) -> None:
        if step > self.step:
            self.step = step
        if self.step > self._death_step:
            self._deaths = 0

    def _lost(self, worker: Worker, phase: Phase, cause: ExitCause) -> None:
        self._apart = 0  # who could not be connected may have been this one
        self._communicators.explained()
        self._out.append(Record(WorkerGone(worker.name)))
        self._out.append(Emit(WorkerLost(UNTIMED_S, worker.name, str(cause), self.step)))
        judgement = self._memory.judge(worker, cause, self._published + 1)
        if isinstance(judgement, Hopeless):
            self._fail(cause.told(judgement.words))
            return
        if isinstance(judgement, Halved):
            self._halve(worker, judgement)
        if cause.kind is not ExitKind.NODE_LOST and judgement is None:  # a machine's end is not the script's
            self._deaths = self._deaths + 1 if self.step <= self._death_step else 1
            self._death_step = self.step
        trains = [w for w in self._alive() if w.phase in (Phase.MEMBER, Phase.JOINING)]
        if phase is Phase.MEMBER and worker.words and not trains and judgement is None:
            self._fail(cause)
        elif self._deaths >= self.settings.max_deaths:
            words = f"{self._deaths} workers died without a step between them; the last: {cause}"
            self._fail(cause.told(words))
        elif phase is Phase.MEMBER or (
            phase is Phase.JOINING and isinstance(self._transition, Entering | Abandoned)
        ):
            self._break(f"worker {worker.name} was lost: {cause}")
        elif phase is Phase.JOINING:
            self._give_up_plan()
        elif self.current is None and worker.words:
            self._fail(cause)

    def _halve(self, worker: Worker, halved: Halved) -> None:
        """The next plan says so to all members; the log remembers it for newcomers and restarts."""
        self._out.append(Record(MemoryLimited(halved.after)))
        self._out.append(Emit(Limited(UNTIMED_S, worker.name, halved.before, halved.after, self.step)))

    def _killed_after_training(self, worker: Worker, phase: Phase, cause: ExitCause) -> None:
        """Others have the same result; if there are none, the end of the script is repeated."""
        worker.done = False  # how far it came in the rest of its script nobody knows
        if any(other.done for other in self.workers.values()):
            self._out.append(Record(WorkerGone(worker.name)))
            self._warn(f"worker {worker.name} was lost after training ({cause}); the others have its result")
        else:
            self._lost(worker, phase, cause)

    def _died_before_init(self, worker: Worker) -> None:
        """The first time may be bad luck: only the same end twice in a row is the script's own."""
        if worker.words != self._unborn_words:
            self._unborn_words, worker.words = worker.words, ""

    def _fence(self, worker: Worker, why: str) -> None:
        self._out.append(Kill(worker.name, why))
        phase, worker.phase = worker.phase, Phase.GONE
        if not worker.done:
            self._lost(worker, phase, given_up(why))

    def _fail(self, cause: ExitCause) -> None:
        if self.outcome is None:
            self._finish(cause)

    def _finish(self, cause: ExitCause) -> None:
        self.outcome = end = Finish(cause)
        self._out.append(Record(JobEnded.by(end.exit)))
        for worker in self._alive():
            self._send(worker.name, StopTraining(end.cause, end.outcome == "failed"))
        self._out.append(self.outcome)

    def _let_go(self) -> None:
        """Nobody needs anybody's part of the last step any more."""
        members = [w for w in self._alive() if w.phase is Phase.MEMBER]
        if members and all(w.done for w in members):
            for worker in members:
                if worker.name not in self._let_gone:
                    self._let_gone.add(worker.name)
                    self._send(worker.name, Over())

    def _finished(self) -> bool:
        self._let_go()
        trained = [w for w in self.workers.values() if w.entered or w.done]
        if self._stopping and not any(w.alive for w in trained):
            self._finish(self._stopping)
        elif any(w.done for w in trained) and not any(w.alive for w in trained):
            self._finish(FINISHED)
        for worker in self._alive() if any(w.done for w in trained) else ():
            if not worker.entered and not worker.done:
                worker.phase = Phase.GONE
                self._out.append(Kill(worker.name, "training has ended"))
        return self.outcome is not None or (any(w.done for w in trained) and not recovers(self._transition))

    def _publish(self, plan: Plan, now_s: float, *, plain_copy: bool = False) -> None:
        plan = replace(self._communicators.planned(plan, self.workers), most=self._memory.most)
        for note in self._communicators.notes():
            self._warn(note)
        self._published_s = now_s
        self._transition = Entering(plan, now_s) if plan.urgent else Preparing(plan, now_s, plain_copy)
        self._published = plan.generation
        self._out.append(Record(PlanMade(plan)))
        for name in dict.fromkeys((*plan.members, *plan.leavers)):
            if name in plan.joiners or plan.kind is Kind.START:
                self.workers[name].phase = Phase.JOINING
            self._send(name, Planned(plan))

    def _give_up_plan(self) -> None:
        """Drop a plan that nobody needs any more.  One that is being entered at a boundary is beyond that."""
        match self._transition:
            case Preparing(plan, _, plain_copy):
                self._cancel(plan, plain_copy=plain_copy)
            case Entering(plan) if plan.urgent:
                self._transition = Abandoned(plan.kind)

    def _cancel(self, plan: Plan, *, plain_copy: bool) -> None:
        """Nobody has entered this plan yet: the old generation simply goes on."""
        self._transition = Steady(plain_copy)
        for name in dict.fromkeys((*plan.members, *plan.leavers)):
            worker = self.workers[name]
            if worker.alive:
                self._send(name, Cancelled(plan.generation))
                if worker.phase is Phase.JOINING:
                    worker.phase = Phase.READY

    def _break(self, why: str) -> None:
        """End the present generation for everybody who is in it or about to enter the next one."""
        match self._transition:
            case Adopting(until_s):
                self._transition = Adopting(until_s, broken=True)
            case Preparing(plan):
                self._cancel(plan, plain_copy=False)
                self._transition = Recovering()
            case _:
                self._transition = Recovering()
        for worker in self._alive():
            if worker.phase in (Phase.MEMBER, Phase.JOINING) and not worker.done:
                self._send(worker.name, Aborted(self._published, why))

    def _recover(self, now_s: float) -> None:
        """Once all who are left of a broken generation have stopped, give them an urgent plan."""
        involved = [w for w in self._alive() if w.phase in (Phase.MEMBER, Phase.JOINING) and not w.done]
        if any(w.parked < self._published for w in involved):
            return
        if involved:
            self._publish(recovery_plan(self._latest + 1, involved, self.current), now_s)
        else:
            self._transition, self.current = Steady(), None

    def _complete(self) -> None:
        """A plan that all its members have entered is the present one."""
        plan = under_way(self._transition)
        if plan is None:
            return
        members = [self.workers[name] for name in plan.members]
        if not all(w.alive and w.entered >= plan.generation for w in members):
            return
        if any(self.workers[n].phase is Phase.MEMBER for n in plan.leavers):
            return
        self._transition, self.current = Steady(), plan
        self._apart = 0
        self._dropped -= set(plan.leavers)
        for name in (*plan.members, *plan.leavers):
            if self.workers[name].alive:
                self._send(name, Settled(plan.generation))

    def _go(self, plan: Plan, leader: str, now_s: float) -> None:
        """Let the leader name the boundary once everybody is prepared."""
        everybody = all(self.workers[n].built >= plan.generation for n in plan.members)
        followed = not plan.shadow or all(self.workers[n].caught_up >= plan.generation for n in plan.joiners)
        if everybody and followed:
            self._transition = Entering(plan, now_s)
            self._send(leader, Go(plan.generation))

    def _advance(self, now_s: float) -> None:
        """Go on from a plan that is prepared; start whoever is missing; plan the next change."""
        if isinstance(self._transition, Preparing) and self.current is not None:
            self._go(self._transition.plan, self.current.members[0], now_s)
        useful = [w for w in self._alive() if w.useful and w.name not in self._dropped]
        fresh = self._deaths == 0 or self.settings.replace or self.current is None
        for _ in range(self.target - len(useful) if fresh else 0):
            self._spawn()
        if under_way(self._transition) is not None:
            return
        if self.current is None:
            self._begin(now_s)
        else:
            plain_copy = isinstance(self._transition, Steady) and self._transition.plain_copy
            self._change(self.current, now_s, plain_copy=plain_copy)

    def _spawn(self) -> None:
        self._born += 1
        name = f"w{self._born}"
        self.workers[name] = Worker(name)
        self._out += [Record(WorkerSpawned(name)), Spawn(name)]

    def _begin(self, now_s: float) -> None:
        ready = [w for w in self._alive() if w.phase is Phase.READY][: self.target]
        warming = any(w.phase is Phase.WARMING for w in self._alive())
        if ready and (len(ready) == self.target or not warming):
            self._publish(start_plan(self._latest + 1, ready), now_s)

    def _change(self, current: Plan, now_s: float, *, plain_copy: bool) -> None:
        change = wanted_change(current, self.workers, self.target, self._dropped, plain_copy=plain_copy)
        for worker in change.surplus:
            worker.phase = Phase.GONE
            self._out.append(Kill(worker.name, "no longer wanted"))
        patience_s = self.settings.join_patience_s
        waits = change.waits(self.target, now_s, patience_s)
        if not waits and (change.joiners or change.leavers):
            shadow = self.settings.shadow
            plan = change_plan(self._latest + 1, change, shadow=shadow, plain_copy=plain_copy)
            self._publish(plan, now_s, plain_copy=plain_copy)
        elif (
            not waits or now_s - self._published_s >= patience_s
        ):  # who comes soon brings a new transport anyway
            rebuilt = self._communicators.rebuilding(self._latest + 1, current, self.workers)
            if rebuilt is not None:
                self._publish(rebuilt, now_s, plain_copy=plain_copy)

    def _look_at_deadline(self, now_s: float) -> None:
        """Give up what takes too long: a plan that cannot be prepared, or members that do not enter one."""
        match self._transition:
            case Preparing(plan, since_s) if now_s - since_s > self.settings.prepare_s:
                self._warn(
                    f"generation {plan.generation} could not be prepared in {self.settings.prepare_s:g} s"
                )
                self._communicators.late(plan, self.workers)
                self._cancel(plan, plain_copy=plan.shadow)
            case Entering(plan, since_s) if now_s - since_s > self.settings.enter_s:
                self._transition = Entering(plan, now_s)
                for worker in late(map(self.workers.__getitem__, plan.members), plan):
                    self._fence(worker, f"did not enter generation {plan.generation}")

    def _look_for_silence(self, now_s: float) -> None:
        for worker in list(self._alive()):
            why = silence(worker, self.settings, now_s)
            never = unheard(worker, self.settings, now_s)
            if never is not None:
                worker.words = never
                if self.current is None:
                    self._died_before_init(worker)
            if why is not None or never is not None:
                self._fence(worker, why or never or "")

    def first_steps(self, now_s: float) -> tuple[str, float] | None:
        """Who has been longest in one of its first steps, and for how many seconds."""
        return first_steps(self._alive(), now_s)

    def pace(self, step_s: float) -> None:
        """What a step takes at present (from reports), so that slow models are not taken for hung ones."""
        self._step_s = step_s


def _failing(cause: ExitCause) -> ExitCause:
    """The cause of a process that says it failed, even where its exit code is 0."""
    return given_up(str(cause)) if cause.clean else cause
