"""What happens first when several things happen at one instant: ends, outages, wishes to be woken, arrivals, rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from elastane.cluster import Cluster, Grant
from elastane.jobs.kinds import Kind
from elastane.policies.contract import Needs, Policy
from elastane.policies.plan import Exact, Fill, Order, Plan
from elastane.policies.view import Request, View
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.simcore.world import Outage, World
from helpers.fixed_job import FixedJob

FREE = Physics(restart_s=0.0)


@dataclass(frozen=True)
class Watching(Policy):
    """Runs whoever fits in the order of arrival, and notes what it was asked for."""

    asked: list[tuple[float, str, tuple[str, ...]]] = field(default_factory=list)
    wakes: tuple[float, ...] = ()

    name: ClassVar[str] = "watching"
    title: ClassVar[str] = "Watching"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs(period_s=10.0)

    def decide(self, view: View) -> Plan:
        self.asked.append((view.now_s, view.trigger, tuple(view.jobs)))
        later = tuple(wake for wake in self.wakes if wake > view.now_s)
        return Plan(Order(tuple(view.jobs), Fill.SKIP), wake_s=later)


def job(name: str, seconds: float, at: float = 0.0, gpus: int = 1) -> Arrival:
    return Arrival(name, at, FixedJob(seconds, gpus), Request(gpus, max_workers=gpus), Kind.RIGID)


def asked_at(policy: Watching, now_s: float) -> list[tuple[str, tuple[str, ...]]]:
    return [(trigger, jobs) for when, trigger, jobs in policy.asked if when == now_s]


def test_everything_that_happens_at_one_instant_is_answered_by_one_decision() -> None:
    policy = Watching(wakes=(20.0,))
    jobs = [job("ends", 20.0), job("stays", 50.0), job("comes", 5.0, at=20.0)]
    World(Cluster.uniform(1, 4), policy, jobs, FREE).run()
    # An end, a wake-up, an arrival and a round: the one that is handled last names the decision.
    assert asked_at(policy, 20.0) == [("tick", ("stays", "comes"))]


@pytest.mark.parametrize("gpus", [1, 4])
def test_who_ends_makes_room_for_who_arrives_at_that_instant(gpus: int) -> None:
    world = World(
        Cluster.uniform(1, gpus), Watching(), [job("a", 7.0, gpus=gpus), job("b", 3.0, 7.0, gpus)], FREE
    )
    world.run()
    assert world.jobs["b"].first_start_s == 7.0
    assert world.jobs["b"].finish_s == 10.0


def test_a_job_that_ends_when_its_node_dies_has_ended() -> None:
    world = World(
        Cluster.uniform(1, 1), Watching(), [job("a", 7.0)], FREE, outages=[Outage("n000", 7.0, 100.0)]
    )
    world.run()
    assert (world.jobs["a"].finish_s, world.jobs["a"].restarts) == (7.0, 0)


def test_a_job_that_arrives_when_a_node_dies_is_not_put_there() -> None:
    policy = Watching()
    world = World(
        Cluster.uniform(2, 1), policy, [job("a", 3.0, at=7.0)], FREE, outages=[Outage("n000", 7.0, 90.0)]
    )
    world.run()
    assert [span.start_s for span in world.jobs["a"].spans] == [7.0]
    assert asked_at(policy, 7.0) == [("arrival", ("a",))]


def test_arrivals_at_one_instant_are_ordered_by_name_however_they_are_listed() -> None:
    names = ("c", "a", "b")
    for listed in (names, names[::-1]):
        policy = Watching()
        World(Cluster.uniform(1, 1), policy, [job(name, 5.0) for name in listed], FREE).run()
        assert policy.asked[0][2] == ("a", "b", "c")


@dataclass(frozen=True)
class Restless(Policy):
    """Wants to be woken at a time that a later plan no longer names."""

    asked: list[tuple[float, str]] = field(default_factory=list)

    name: ClassVar[str] = "restless"
    title: ClassVar[str] = "Restless"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs()

    def decide(self, view: View) -> Plan:
        self.asked.append((view.now_s, view.trigger))
        wakes = (30.0, float("inf")) if view.now_s == 0.0 else (40.0,) if view.now_s < 40.0 else ()
        return Plan(Exact({name: Grant.of([("n000", 1)]) for name in sorted(view.jobs)[:1]}), wake_s=wakes)


def test_only_the_latest_plan_may_wake_its_policy() -> None:
    policy = Restless()
    World(Cluster.uniform(1, 1), policy, [job("a", 60.0), job("b", 1.0, at=10.0)], FREE).run()
    assert policy.asked == [(0.0, "arrival"), (10.0, "arrival"), (40.0, "timer"), (60.0, "finish")]
