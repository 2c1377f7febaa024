"""Once a script is known to count its steps by itself, newcomers come where a loop over its data begins."""

from __future__ import annotations

import pytest

from elastane.train.coordinator.actions import Action, Kill, Record, Send
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.messages import Aborted, Cancelled, Go, Planned, Prepared, ToWorker, WorkerHello
from elastane.train.coordinator.plan_entries import Entry, LoopsCounted
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase
from elastane.train.exit_cause import ExitCause

SIGNATURE = {"elastane": "1", "torch": "2", "python": "3", "parameters": [], "settings": {}, "shadow": True}


class Job:
    """A coordinator, and what it has said; its workers are one behind the other at their messages."""

    def __init__(self, workers: int = 1, *, shadow: bool = True) -> None:
        self.said: list[tuple[str, ToWorker]] = []
        self.log: list[Entry] = []
        self.killed: list[str] = []
        self.now = 1.0
        self.coordinator = Coordinator(Settings(workers=workers, shadow=shadow))
        self.hear(self.coordinator.start(self.now))
        names = [f"w{number + 1}" for number in range(workers)]
        for name in names:
            self.come(name)
        self.enter(*names)
        self.hear(self.coordinator.strayed("w1", self.now))

    def hear(self, actions: list[Action]) -> None:
        self.said += [(a.worker, a.message) for a in actions if isinstance(a, Send)]
        self.log += [a.entry for a in actions if isinstance(a, Record)]
        self.killed += [a.worker for a in actions if isinstance(a, Kill)]

    def come(self, name: str) -> None:
        self.hear(self.coordinator.hello(WorkerHello(name), self.now))
        self.hear(self.coordinator.ready(name, SIGNATURE, "host:1", self.now))

    def enter(self, *names: str) -> None:
        for name in names:
            self.hear(self.coordinator.entered(name, self.plan.generation, 1, self.now))

    def prepare(self) -> None:
        """All that a plan needs but for the boundary."""
        for name in self.plan.members:
            self.hear(self.coordinator.built(name, self.plan.generation, self.now))
        for name in self.plan.joiners:
            self.hear(self.coordinator.caught_up(name, self.plan.generation, self.now))

    def grow(self) -> None:
        self.hear(self.coordinator.resize(2, self.now))
        self.come("w2")
        self.prepare()

    def loop_begins(self, name: str = "w1") -> None:
        self.hear(self.coordinator.loop_begins(name, self.plan.generation, self.now))

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            for worker in self.coordinator.workers.values():
                if worker.alive:
                    self.hear(self.coordinator.beat(worker.name, int(self.now), Activity.OUTSIDE, self.now))
            self.hear(self.coordinator.tick(self.now))

    @property
    def plan(self) -> Plan:
        """The latest."""
        return [message.plan for _, message in self.said if isinstance(message, Planned)][-1]

    def told(self, kind: type[ToWorker]) -> list[str]:
        return [name for name, message in self.said if isinstance(message, kind)]


@pytest.mark.parametrize("shadow", [True, False])
def test_a_plan_waits_for_a_loop_however_long_and_is_entered_by_all_when_one_begins(shadow: bool) -> None:
    job = Job(shadow=shadow)
    job.grow()
    assert job.plan.at_loop
    assert job.plan.shadow == shadow
    assert job.told(Prepared) == ["w1"]
    job.wait(1000)
    assert (job.told(Go), job.told(Cancelled), job.killed) == ([], [], [])
    job.loop_begins()
    assert job.told(Go) == ["w1", "w2"]
    job.loop_begins("w2")
    assert job.told(Go) == ["w1", "w2", "w2"], "whoever asks again is told again"
    job.enter("w1", "w2")
    assert job.coordinator.settled


def test_the_log_and_the_leader_are_told_once() -> None:
    job = Job()
    job.hear(job.coordinator.strayed("w1", job.now))
    assert job.log.count(LoopsCounted()) == 1


def test_a_smaller_size_is_not_kept_waiting_by_a_long_loop() -> None:
    job = Job()
    job.grow()
    job.hear(job.coordinator.resize(1, job.now))
    assert job.told(Cancelled) == ["w1", "w2"]
    job.loop_begins()
    assert job.told(Go) == []
    assert job.told(Cancelled) == ["w1", "w2", "w1"], "whoever has not heard it is told again"
    assert job.coordinator.settled


def test_a_leader_that_comes_back_hears_again_that_all_are_prepared() -> None:
    job = Job()
    job.grow()
    for name in ("w2", "w1"):
        job.hear(job.coordinator.hello(WorkerHello(name, Phase.MEMBER, 1, SIGNATURE), job.now))
    assert job.told(Prepared) == ["w1", "w1"]


def test_a_newcomer_that_dies_while_it_waits_disturbs_nobody() -> None:
    job = Job()
    job.grow()
    job.hear(job.coordinator.exited("w2", ExitCause.of_process(-9), job.now))
    assert job.told(Aborted) == []
    assert job.told(Cancelled) == ["w1"]


def test_a_worker_that_leaves_does_not_wait_for_the_loop_in_which_another_takes_its_place() -> None:
    job = Job(workers=2)
    job.hear(job.coordinator.resize(2, job.now, ["w2"]))
    job.come("w3")
    assert (job.plan.kind, job.plan.members, job.plan.at_loop) == (Kind.SHRINK, ("w1",), False)
    job.prepare()
    job.enter("w1")
    job.hear(job.coordinator.left("w2", job.now))
    assert (job.plan.kind, job.plan.members, job.plan.at_loop) == (Kind.GROW, ("w1", "w3"), True)


def test_a_coordinator_that_replaces_this_one_lets_newcomers_in_where_loops_begin() -> None:
    job = Job()
    after = Coordinator.adopt(Settings(workers=1), job.log, job.now)
    after.hello(WorkerHello("w1", phase=Phase.MEMBER, generation=1, signature=SIGNATURE), job.now)
    job.coordinator = after
    job.grow()
    assert job.plan.at_loop
