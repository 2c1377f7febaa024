"""Neighbours slow each other down: who, by how much, since when, and what learned models make of it."""

from __future__ import annotations

import pytest

from elastane.cluster import Cluster, Grant
from elastane.jobs.kinds import Kind
from elastane.policies.view import Request
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics, core_share
from elastane.simcore.world import World
from helpers.fixed_job import FixedJob
from simcore.test_world import script


def job(name: str, work: float) -> Arrival:
    behaviour = FixedJob(work, 1, linear=True)
    return Arrival(name, 0.0, behaviour, Request(1, max_workers=8), Kind.ADAPTIVE)


def on(**workers: int) -> Grant:
    return Grant.of(workers.items())


def ends(table, *jobs: Arrival, **physics: float) -> dict[str, float | None]:
    world = World(Cluster.uniform(3, 4), script(table), jobs, Physics(restart_s=0.0, **physics))
    world.run()
    return {name: run.finish_s for name, run in world.jobs.items()}


@pytest.mark.parametrize("slowdown", [0.0, 0.25, 0.5])
def test_two_distributed_jobs_on_one_node_are_slower_by_the_given_part(slowdown: float) -> None:
    table = {0.0: {"x": on(n000=1, n001=1), "y": on(n001=1, n002=1)}}
    found = ends(table, job("x", 60.0), job("y", 60.0), interference=slowdown)
    assert found == {"x": pytest.approx(30.0 / (1.0 - slowdown)), "y": pytest.approx(30.0 / (1.0 - slowdown))}


def test_three_on_one_node_are_no_slower_than_two() -> None:
    table = {0.0: {name: on(n000=1, n001=1) for name in "xyz"}}
    found = ends(table, *(job(name, 60.0) for name in "xyz"), interference=0.5)
    assert set(found.values()) == {60.0}


def test_a_job_is_as_fast_as_alone_again_when_its_neighbour_moves_away() -> None:
    both = {"x": on(n000=1, n001=1), "y": on(n001=1, n002=1)}
    apart = {"x": on(n000=1, n001=1), "y": on(n002=2)}
    found = ends({0.0: both, 10.0: apart}, job("x", 60.0), job("y", 60.0), interference=0.5)
    # Ten seconds at one a second, then 50 at two.
    assert found == {"x": 35.0, "y": 35.0}


def test_cores_are_shared_by_all_who_are_busy_and_by_nobody_else() -> None:
    table = {0.0: {"x": on(n000=2), "y": on(n001=2)}}
    found = ends(table, job("x", 20.0), job("y", 60.0), cores=2)
    # At half speed each until x ends after 20 s; y has done 20 of 60 and does the rest at two a second.
    assert found == {"x": 20.0, "y": 40.0}


@pytest.mark.parametrize(("cores", "busy", "share"), [(None, 99, 1.0), (4, 4, 1.0), (4, 8, 0.5), (1, 3, 1 / 3)])
def test_a_slot_has_its_share_of_the_cores_and_never_more_than_one(cores, busy, share) -> None:
    assert core_share(cores, busy) == pytest.approx(share)
