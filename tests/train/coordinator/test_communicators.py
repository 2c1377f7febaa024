"""Communicators come and go with the plans: never waited for, given up where they cannot be had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastane.train.coordinator.actions import Action, Emit, Record, Send
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.messages import Cancelled, WorkerHello
from elastane.train.coordinator.plan_entries import PlanMade, TargetSet, WorkerSpawned
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase
from elastane.train.exit_cause import ExitCause
from elastane.train.reports.events import Warned
from elastane.train.transport_choice import MemberDevice, TransportKind, TransportWish

SIGNATURE = {"elastane": "1", "torch": "2", "python": "3", "parameters": [], "settings": {}, "shadow": False}
GLOO, STAGED, NCCL = TransportKind
DEAD = ExitCause.of_process(-9)


class Job:
    """A coordinator whose workers do at once what they are asked for, unless a test does it for them."""

    def __init__(self, workers: int = 2, wish: TransportWish = TransportWish.NCCL, kind: str = "cuda") -> None:
        self.coordinator = Coordinator(Settings(workers=workers, transport=wish, shadow=False))
        self.kind = kind
        self.now = 0.0
        self.plans: list[Plan] = []
        self.warnings: list[str] = []
        self.cancelled: list[int] = []
        self.take(self.coordinator.start(0.0))
        for number in range(1, workers + 1):
            self.comes(number)

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Record(PlanMade(plan)):
                    self.plans.append(plan)
                case Emit(Warned(_, text)):
                    self.warnings.append(text)
                case Send(_, Cancelled(generation)):
                    self.cancelled.append(generation)

    def comes(self, number: int, device: MemberDevice | None = None) -> None:
        name = f"w{number}"
        device = device or MemberDevice("h1", self.kind, f"GPU-{number}")
        self.take(self.coordinator.hello(WorkerHello(name), self.now))
        self.take(self.coordinator.ready(name, SIGNATURE, "", self.now, device))

    def build(self, *names: str) -> None:
        for name in names or self.plans[-1].members:
            self.take(self.coordinator.built(name, self.plans[-1].generation, self.now))

    def enter(self, step: int = 1) -> None:
        plan = self.plans[-1]
        for name in plan.members:
            self.take(self.coordinator.entered(name, plan.generation, step, self.now))

    def breaks(self) -> None:
        """Every member says that the generation is over."""
        plan, count = self.plans[-1], len(self.plans)
        for name in plan.members:
            if self.coordinator.workers[name].alive:
                self.take(self.coordinator.failed(name, plan.generation, 1, "aborted", self.now))
        assert len(self.plans) == count + 1

    def told(self) -> list[tuple[Kind, TransportKind]]:
        return [(plan.kind, plan.transport) for plan in self.plans]


def trained(job: Job) -> Job:
    """The start, and the change over to a communicator."""
    job.enter()
    job.build()
    job.enter()
    return job


def test_a_job_starts_over_gloo_and_changes_over_to_a_communicator_while_it_trains() -> None:
    job = trained(Job())
    assert job.told() == [(Kind.START, STAGED), (Kind.REBUILD, NCCL)]
    assert job.plans[1].members == job.plans[0].members
    assert job.plans[1].source is None
    assert job.coordinator.settled
    assert len(job.plans) == 2


@pytest.mark.parametrize(
    ("kind", "wish", "transport"),
    [("cpu", TransportWish.NCCL, GLOO), ("cuda", TransportWish.STAGED, STAGED)],
)
def test_without_devices_or_without_the_wish_there_is_nothing_to_rebuild(
    kind: str, wish: TransportWish, transport: TransportKind
) -> None:
    job = Job(wish=wish, kind=kind)
    job.enter()
    assert job.told() == [(Kind.START, transport)]
    assert job.warnings == []


def test_after_a_death_survivors_go_on_over_gloo_and_change_over_later() -> None:
    job = trained(Job(3))
    job.take(job.coordinator.exited("w2", DEAD, job.now))
    job.breaks()
    assert job.told()[2:] == [(Kind.RECOVER, STAGED)]
    job.enter(2)
    assert len(job.plans) == 3  # the one in its place is on its way, and brings its own communicator
    job.comes(4)
    assert job.told()[3:] == [(Kind.GROW, NCCL)]


def test_whoever_takes_long_to_come_is_not_waited_for() -> None:
    job = trained(Job(3))
    job.take(job.coordinator.exited("w2", DEAD, job.now))
    job.breaks()
    job.enter(2)
    for _ in range(12):
        job.now += 1.0
        for name in ("w1", "w3"):
            job.take(job.coordinator.beat(name, 2, Activity.COMPUTING, job.now))
        job.take(job.coordinator.tick(job.now))
    assert job.told()[3:] == [(Kind.REBUILD, NCCL)]
    assert job.plans[-1].members == ("w1", "w3")


def test_a_member_that_can_have_none_ends_the_plan_for_all_and_is_named_once() -> None:
    job = Job()
    job.enter()
    job.build("w1")
    why = "not enough memory on the device for a communicator"
    job.take(job.coordinator.built("w2", job.plans[-1].generation, job.now, why))
    assert job.cancelled == [2, 2]
    assert job.told() == [(Kind.START, STAGED), (Kind.REBUILD, NCCL)]
    assert job.coordinator.settled
    job.take(job.coordinator.resize(3, job.now))
    job.comes(3)
    assert job.told()[2:] == [(Kind.GROW, STAGED)]
    assert job.warnings == [f"w2: {why}: gradients travel through main memory"]


def test_a_plan_that_grows_and_cannot_have_one_is_made_again_without() -> None:
    job = trained(Job())
    job.take(job.coordinator.resize(3, job.now))
    job.comes(3)
    assert job.told()[2:] == [(Kind.GROW, NCCL)]
    job.take(job.coordinator.built("w3", job.plans[-1].generation, job.now, "no NCCL"))
    assert job.told()[3:] == [(Kind.GROW, STAGED)]
    assert job.plans[-1].joiners == ("w3",)


def test_one_that_is_not_built_in_time_is_not_tried_again() -> None:
    job = Job()
    job.enter()
    job.build("w1")
    for _ in range(130):
        job.now += 1.0
        for name in ("w1", "w2"):
            job.take(job.coordinator.beat(name, 2, Activity.COMPUTING, job.now))
        job.take(job.coordinator.tick(job.now))
    assert job.told() == [(Kind.START, STAGED), (Kind.REBUILD, NCCL)]
    assert job.coordinator.settled


def test_communicators_that_break_though_nobody_dies_are_given_up() -> None:
    job = Job()
    job.enter()
    for _ in range(3):
        job.build()
        job.enter()
        assert job.told()[-1] == (Kind.REBUILD, NCCL)
        job.breaks()
        job.enter()
    assert job.told()[-1] == (Kind.RECOVER, STAGED)
    assert job.coordinator.settled
    assert job.warnings == ["3 communicators in a row broke for no reason that is known"]


def test_deaths_do_not_count_as_breaks() -> None:
    job = trained(Job())
    for number in range(3, 9):
        dead = job.plans[-1].members[0]
        job.take(job.coordinator.exited(dead, DEAD, job.now))
        job.breaks()
        job.enter(number)
        job.comes(number)
        job.build()
        job.enter(number)
        assert job.told()[-1] == (Kind.GROW, NCCL)


def test_two_workers_on_one_device_are_staged_and_told_of_only_to_who_asked() -> None:
    for wish, told in ((TransportWish.NCCL, 1), (TransportWish.AUTO, 0)):
        job = Job(1, wish)
        job.enter()
        job.take(job.coordinator.resize(2, job.now))
        job.comes(2, MemberDevice("h1", "cuda", "GPU-1"))
        assert job.told()[1:] == [(Kind.GROW, STAGED)]
        assert [line for line in job.warnings if "2 workers use GPU-1 on h1" in line] == job.warnings
        assert len(job.warnings) == told


def test_a_new_coordinator_learns_the_devices_from_those_who_come_back() -> None:
    job = trained(Job())
    entries = [
        TargetSet(2),
        *(WorkerSpawned(name) for name in ("w1", "w2")),
        PlanMade(replace(job.plans[-1], transport=STAGED)),
    ]
    job.now = 1.0
    job.coordinator = Coordinator.adopt(job.coordinator.settings, entries, job.now)
    for number in (1, 2):
        device = MemberDevice("h1", "cuda", f"GPU-{number}")
        hello = WorkerHello(f"w{number}", phase=Phase.MEMBER, generation=2, applied=1, device=device)
        job.take(job.coordinator.hello(hello, job.now))
    assert job.told()[2:] == [(Kind.REBUILD, NCCL)]
