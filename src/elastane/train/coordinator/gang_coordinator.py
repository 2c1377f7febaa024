"""Decides over scripts that know nothing of us: their processes start as a gang and end as a gang.

A pure state machine like ``Coordinator``, but its workers never say a word: it only hears that processes have
started or ended.  A *resizable* (``elastic``) job is stopped and started again for a resize or after a death,
and its script goes on from its own checkpoint.  A *command* keeps its size, and dies with its first worker.
There is never a process of a new gang before the last one of the old gang is gone.

It cannot see steps, nor a worker that hangs; and all processes of a gang must reach one address.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from elastane.train.coordinator.actions import (
    UNTIMED_S,
    Action,
    Emit,
    Finish,
    Kill,
    Record,
    Send,
    Signal,
    Spawn,
)
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.messages import Refused, WorkerHello
from elastane.train.coordinator.plan_entries import (
    Entry,
    JobEnded,
    PlanMade,
    TargetSet,
    WorkerGone,
    WorkerSpawned,
)
from elastane.train.coordinator.replay import counted
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_places import LOCAL
from elastane.train.coordinator.worker_table import Phase, Worker
from elastane.train.exit_cause import FINISHED, ExitCause, ExitKind
from elastane.train.reports.events import Resized, Warned, WorkerLost


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, and how often to try again."""

    grace_s: float = 5.0
    """Between SIGTERM and SIGKILL."""
    max_restarts: int = 3
    """After deaths in a row; resizes do not count."""
    healthy_s: float = 30.0
    """A gang that ran this long ends such a row."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the processes of a gang find each other."""

    run_id: str
    address_of: Callable[[str], str]
    """Where a node is reached by the others; empty while nobody has said."""
    free_port: Callable[[], int]
    """Asked once for each gang."""
    node_of: Callable[[str], str] = lambda _worker: LOCAL
    alone: bool = True
    """Whether a gang of one is told as well."""


@dataclass(slots=True)
class _Ending:
    """The present gang is on its way out: since when, and what follows."""

    since_s: float
    finish: Finish | None = None
    recover: bool = False


class PlainCoordinator:
    """One job of processes that are only started, signalled and waited for."""

    def __init__(
        self, settings: Settings, elastic: bool, meeting: Meeting, patience: Patience | None = None
    ) -> None:
        self.settings = settings
        self.elastic = elastic
        self.target = settings.workers
        self.step = 0
        self.workers: dict[str, Worker] = {}
        self.current: Plan | None = None
        self.outcome: Finish | None = None
        self.spoken_to = False
        """Whether a worker called into ``elastane.train`` after all."""
        self.restarts = 0
        self._meeting = meeting
        self._patience = patience or Patience()
        self._gang: Plan | None = None
        self._port = 0
        self._ending: _Ending | None = None
        self._stopped_s = 0.0
        self._gathered_s = 0.0
        self._running_s: float | None = None
        self._deaths = 0
        self._born = 0
        self._published = 0
        self._out: list[Action] = []

    @property
    def staying(self) -> Sequence[str]:
        """Everybody of the gang that runs, unless it is on its way out."""
        return [worker.name for worker in self._alive()] if self._ending is None else []

    @property
    def settled(self) -> bool:
        """Whether a gang of the wanted size runs, and is not being replaced."""
        gang = self.current
        return gang is not None and gang is self._gang and not self._ending and len(gang.members) == self.target

    def resume(self, entries: Iterable[Entry]) -> None:
        """Begin after an earlier run with this log: names and generations are never used twice."""
        self._born, self._published = counted(entries)

    @property
    def meets_at(self) -> str:
        """The address of the node of rank 0, where the present gang meets; empty while it is not known."""
        assert self._gang is not None
        return self._meeting.address_of(self._meeting.node_of(self._gang.members[0]))

    def environment(self, worker: str) -> dict[str, str]:
        """What torchrun would set for this worker of the present gang; nothing where there is nobody to meet."""
        assert self._gang is not None
        members, node_of = self._gang.members, self._meeting.node_of
        if len(members) == 1 and not self._meeting.alone:
            return {}
        rank, size = str(members.index(worker)), str(len(members))
        nodes = list(dict.fromkeys(map(node_of, members)))
        here = [name for name in members if node_of(name) == node_of(worker)]
        return {
            **dict.fromkeys(("RANK", "ROLE_RANK"), rank),
            **dict.fromkeys(("WORLD_SIZE", "ROLE_WORLD_SIZE"), size),
            "LOCAL_RANK": str(here.index(worker)),
            "LOCAL_WORLD_SIZE": str(len(here)),
            "GROUP_RANK": str(nodes.index(node_of(worker))),
            "GROUP_WORLD_SIZE": str(len(nodes)),
            "ROLE_NAME": "default",
            "MASTER_ADDR": self.meets_at,
            "MASTER_PORT": str(self._port),
            "TORCHELASTIC_RESTART_COUNT": str(self.restarts),
            "TORCHELASTIC_MAX_RESTARTS": str(self._patience.max_restarts if self.elastic else 0),
            "TORCHELASTIC_RUN_ID": self._meeting.run_id,
            # Rank 0 opens the store itself: there is no agent that would.
            "TORCHELASTIC_USE_AGENT_STORE": "False",
        }

    # What is told from outside; each call answers with actions.

    def start(self, now_s: float) -> list[Action]:
        """Ask for the first gang."""
        self._out.append(Record(TargetSet(self.target)))
        self._stopped_s = now_s
        self._gather(now_s)
        return self._actions()

    def resize(self, workers: int, now_s: float, drop: Iterable[str] = ()) -> list[Action]:
        """From now on ``workers`` of them, none of them in ``drop``: all start again."""
        limit = self.settings.max_workers
        wanted = max(1, workers if limit is None else min(workers, limit))
        dropped = not set(drop).isdisjoint(worker.name for worker in self._alive())
        if self.outcome is not None or (wanted == self.target and not dropped):
            return []
        if not self.elastic:
            self._warn(f"a command cannot be resized: it keeps its {self.target}, not {wanted} workers")
            return self._actions()
        self.target = wanted
        self._out.append(Record(TargetSet(wanted)))
        if self._gang is not None and self._ending is None:
            self._replace_gang(self._gang, now_s, dropped=dropped)
        return self._actions()

    def stop(self, cause: ExitCause, now_s: float) -> list[Action]:
        """End the job: SIGTERM for everybody."""
        if self.outcome is None:
            self._end_gang(now_s, Finish(cause))
        return self._actions()

    def hello(self, hello: WorkerHello, now_s: float) -> list[Action]:  # noqa: ARG002
        """Somebody wants to talk; nobody here is expected to."""
        self.spoken_to = True
        kind = "resizable" if self.elastic else "command"
        self._out.append(Send(hello.worker, Refused(f"the workers of a {kind} job do not talk")))
        return self._actions()

    def said_goodbye(self, name: str, cause: str) -> None:
        """What a worker's log ends with."""
        if name in self.workers:
            self.workers[name].words = cause

    def started(self, name: str, now_s: float) -> list[Action]:
        """A worker's process exists, and can be signalled."""
        worker = self.workers.get(name)
        if worker is None or worker.phase is not Phase.WARMING:
            return []
        worker.phase, worker.beat.doing, worker.beat.since_s = Phase.MEMBER, Activity.RUNNING, now_s
        if self._ending is not None:
            self._ask_to_leave(worker)
        elif all(each.phase is not Phase.WARMING for each in self.workers.values()):
            self._complete(now_s)
        return self._actions()

    def exited(self, name: str, cause: ExitCause, now_s: float) -> list[Action]:
        """A worker's process is gone."""
        worker = self.workers.get(name)
        if worker is None or not worker.alive:
            return []
        worker.phase = Phase.GONE
        self._out.append(Record(WorkerGone(name)))
        if self._ending is None:
            if cause.clean:
                worker.done = True
            else:
                self._lost(worker, cause, now_s)
        self._settle(now_s)
        return self._actions()

    def tick(self, now_s: float) -> list[Action]:
        """Time has passed: whoever was asked to leave and did not is made to."""
        ending = self._ending
        if ending is not None and now_s - ending.since_s >= self._patience.grace_s:
            why = f"did not end within {self._patience.grace_s:g} s of SIGTERM"
            self._out += [Kill(w.name, why) for w in self._alive() if w.phase is Phase.LEAVING]
            if ending.finish is not None:  # a new gang has to wait for them instead
                self._give_up_unborn(now_s)
        return self._actions()

    def _give_up_unborn(self, now_s: float) -> None:
        """Let go of workers that nobody has started: no process is there whose end could be told."""
        unborn = [worker for worker in self._alive() if worker.phase is Phase.WARMING]
        for worker in unborn:
            worker.phase = Phase.GONE
            gone = Record(WorkerGone(worker.name))
            self._out += [gone, Kill(worker.name, "the job ends before it was started")]
        if unborn:
            self._settle(now_s)

    # Inside.

    def _actions(self) -> list[Action]:
        actions, self._out = self._out, []
        return actions

    def _alive(self) -> Sequence[Worker]:
        return [worker for worker in self.workers.values() if worker.alive]

    def _warn(self, text: str) -> None:
        self._out.append(Emit(Warned(UNTIMED_S, text)))

    def _gather(self, now_s: float) -> None:
        """Start a gang; nobody of the last one is left."""
        names = tuple(f"w{self._born + i}" for i in range(1, self.target + 1))
        self._born += len(names)
        self._published += 1
        kind = self._kind(len(names))
        self._gang = Plan(self._published, kind, names)
        self._port, self._ending = self._meeting.free_port(), None
        self._gathered_s, self._running_s = now_s, None
        self.workers = {name: Worker(name) for name in names}
        self._out.append(Record(PlanMade(self._gang)))
        for name in names:
            self._out += [Record(WorkerSpawned(name)), Spawn(name)]

    def _kind(self, after: int) -> Kind:
        if self.current is None:
            return Kind.START
        if self._ending is not None and self._ending.recover:
            return Kind.RECOVER
        before = len(self.current.members)
        return Kind.GROW if after > before else Kind.SHRINK if after < before else Kind.MOVE

    def _complete(self, now_s: float) -> None:
        gang, before = self._gang, len(self.current.members) if self.current else 0
        assert gang is not None
        self.current, self._running_s = gang, now_s
        stopping_s, starting_s = self._gathered_s - self._stopped_s, now_s - self._gathered_s
        after, pauses = len(gang.members), {"stop": stopping_s, "start": starting_s}
        generation, pause_s, kind = gang.generation, stopping_s + starting_s, gang.kind
        event = Resized(UNTIMED_S, generation, kind.value, before, after, self.step, pause_s, pauses)
        self._out.append(Emit(event))

    def _replace_gang(self, gang: Plan, now_s: float, *, dropped: bool) -> None:
        if not dropped and self.target == len(gang.members):
            return
        if any(worker.done for worker in self.workers.values()):
            # A gang of which some have finished is about to be complete; a restart would begin its end again.
            self._warn(f"the change to {self.target} workers came too late: the job is ending")
        else:
            self._end_gang(now_s)

    def _lost(self, worker: Worker, how: ExitCause, now_s: float) -> None:
        assert self._gang is not None
        how = how.said(worker.words)
        words = f"{how}; its last words: {worker.words}" if worker.words else str(how)
        cause = f"worker {worker.name} (rank {self._gang.members.index(worker.name)}): {words}"
        self._out.append(Emit(WorkerLost(UNTIMED_S, worker.name, words, self.step)))
        ran_s = now_s - self._running_s if self._running_s is not None else 0.0
        if how.kind is not ExitKind.NODE_LOST:
            self._deaths = 1 if ran_s >= self._patience.healthy_s else self._deaths + 1
        if not self.elastic:
            self._end_gang(now_s, Finish(how.told(cause)))
        elif self._deaths > self._patience.max_restarts:
            again = f"given up after {self._deaths - 1} restarts: {cause}"
            self._end_gang(now_s, Finish(how.told(again)))
        else:
            self.restarts += 1
            self._end_gang(now_s, recover=True)

    def _end_gang(self, now_s: float, finish: Finish | None = None, *, recover: bool = False) -> None:
        if self._ending is None:
            self._ending = _Ending(now_s, finish, recover)
            if self._running_s is not None:
                self._stopped_s = now_s
            for worker in self._alive():
                if worker.phase is Phase.MEMBER:
                    self._ask_to_leave(worker)
        elif self._ending.finish is None:
            self._ending.finish = finish
        self._settle(now_s)

    def _ask_to_leave(self, worker: Worker) -> None:
        worker.phase = Phase.LEAVING
        self._out.append(Signal(worker.name, signal.SIGTERM))

    def _settle(self, now_s: float) -> None:
        """Once everybody is gone: the next gang, or the end."""
        if self.outcome is not None or self._alive():
            return
        if self._ending is None:
            self._finish(Finish(FINISHED))
        elif self._ending.finish is not None:
            self._finish(self._ending.finish)
        else:
            self._gather(now_s)

    def _finish(self, outcome: Finish) -> None:
        self.outcome = outcome
        self._out.append(Record(JobEnded.by(outcome.exit)))
        self._out.append(outcome)
