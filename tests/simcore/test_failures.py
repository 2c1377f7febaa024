"""Nodes that fail, one by one, together and again: whose work is lost, how much of it, and who may go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Cluster, Grant
from elastane.jobs.kinds import Kind
from elastane.policies.contract import Needs, Policy
from elastane.policies.fifo import Fifo
from elastane.policies.plan import Admission, Order, Plan, Verdict
from elastane.policies.view import Request, View
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.simcore.world import Outage, World
from helpers.fixed_job import FixedJob

FREE = Physics(restart_s=0.0)


@dataclass(frozen=True)
class RefusesWhatDoesNotFit(Policy):
    """Runs everybody in order, but refuses who asks for more than there is."""

    name: ClassVar[str] = "refuses"
    title: ClassVar[str] = "Refuses"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs()

    def decide(self, view: View) -> Plan:
        wide = [job for job in view.jobs.values() if job.request.workers > view.total_gpus]
        return Plan(
            Order(tuple(view.jobs)),
            admissions={job.id: Admission(Verdict.REJECT, "too wide") for job in wide},
        )


def job(name: str, seconds: float, gpus: int = 1, kind: Kind = Kind.RIGID) -> Arrival:
    return Arrival(name, 0.0, FixedJob(seconds, gpus), Request(gpus, max_workers=gpus), kind)


def test_outages_of_one_node_that_overlap_keep_it_away_until_the_last_is_over() -> None:
    outages = [Outage("n000", 10.0, 30.0), Outage("n000", 20.0, 50.0)]
    world = World(Cluster.uniform(1, 1), Fifo(), [job("a", 15.0)], FREE, outages=outages)
    world.run()
    assert world.jobs["a"].finish_s == 50.0 + 15.0  # ten seconds of work were lost: no checkpoint was due


def test_only_jobs_on_the_node_lose_anything() -> None:
    jobs = [job("there", 40.0, gpus=2), job("elsewhere", 40.0, gpus=2)]
    world = World(Cluster.uniform(2, 2), Fifo(), jobs, FREE, outages=[Outage("n000", 20.0, 25.0)])
    world.run()
    ends = sorted(run.finish_s or 0.0 for run in world.jobs.values())
    assert ends == [40.0, 65.0]


def test_a_job_over_several_nodes_dies_with_any_of_them() -> None:
    for node in ("n000", "n001"):
        world = World(
            Cluster.uniform(2, 2), Fifo(), [job("wide", 40.0, gpus=4)], FREE, outages=[Outage(node, 20.0, 30.0)]
        )
        world.run()
        assert world.jobs["wide"].finish_s == 70.0


@pytest.mark.parametrize(("checkpoint_s", "redone_s"), [(600.0, 25.0), (10.0, 5.0), (5.0, 0.0)])
def test_what_is_lost_is_what_was_done_since_the_last_checkpoint(checkpoint_s: float, redone_s: float) -> None:
    physics = Physics(restart_s=0.0, checkpoint_interval_s=checkpoint_s)
    world = World(
        Cluster.uniform(1, 1), Fifo(), [job("a", 40.0)], physics, outages=[Outage("n000", 25.0, 30.0)]
    )
    world.run()
    assert world.jobs["a"].finish_s == pytest.approx(30.0 + 15.0 + redone_s)


def test_a_command_can_be_lost_although_it_must_not_be_suspended() -> None:
    world = World(
        Cluster.uniform(1, 1),
        Fifo(),
        [job("a", 40.0, kind=Kind.COMMAND)],
        FREE,
        outages=[Outage("n000", 5.0, 9.0)],
    )
    world.run()
    assert world.jobs["a"].finish_s == 9.0 + 40.0


OUTAGES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 100), st.integers(1, 40)).map(
        lambda drawn: Outage(f"n00{drawn[0]}", float(drawn[1]), float(drawn[1] + drawn[2]))
    ),
    max_size=8,
)


@given(outages=OUTAGES, sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_nobody_ever_stands_on_a_node_that_is_away_and_everybody_finishes(outages, sizes) -> None:
    seen: list[tuple[float, dict[str, Grant]]] = []
    jobs = [job(f"j{number}", 30.0, gpus) for number, gpus in enumerate(sizes)]
    world = World(
        Cluster.uniform(3, 2),
        Fifo(),
        jobs,
        FREE,
        outages=outages,
        on_decision=lambda decision: seen.append((decision.now_s, dict(decision.grants))),
    )
    world.run()
    assert all(run.finish_s is not None for run in world.jobs.values())
    for now_s, grants in seen:
        away = {outage.node for outage in outages if outage.down_s <= now_s < outage.up_s}
        assert not any(away & set(grant.nodes) for grant in grants.values())


def test_a_policy_that_refuses_waits_until_every_node_is_back() -> None:
    jobs = [job("wide", 40.0, gpus=2)]
    policy = RefusesWhatDoesNotFit()
    world = World(Cluster.uniform(2, 1), policy, jobs, FREE, outages=[Outage("n000", 0.0, 30.0)])
    world.run()
    assert world.rejected == {}
    assert world.jobs["wide"].finish_s == 70.0
    wider = World(
        Cluster.uniform(2, 1), policy, [job("wider", 40.0, gpus=3)], FREE, outages=[Outage("n000", 0.0, 30.0)]
    )
    wider.run()
    assert wider.rejected == {"wider": "too wide"}
    assert wider.now_s == 30.0
