"""EASY and conservative backfilling, on schedules computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Cluster
from elastane.jobs.kinds import Kind
from elastane.policies.easy import Easy
from elastane.policies.fifo import Fifo
from elastane.policies.options import OptionError
from elastane.policies.registry import make_policy
from elastane.policies.view import Request
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.simcore.world import World
from helpers.fixed_job import FixedJob


@pytest.mark.parametrize("reservations", ["one", "all"])
def test_a_job_that_ends_before_the_shadow_backfills_and_a_longer_one_does_not(schedule, job, reservations):
    jobs = [job("J1", 3, 10), job("J2", 4, 10), job("J3", 1, 10), job("J4", 1, 12)]
    seen = schedule(f"easy(reservations={reservations})", jobs)
    assert seen.starts == {"J1": 0, "J3": 0, "J2": 10, "J4": 20}


@pytest.mark.parametrize("reservations", ["one", "all"])
def test_a_long_job_may_use_what_the_reservation_leaves(schedule, job, reservations):
    jobs = [job("J1", 2, 10), job("J2", 3, 10), job("J3", 1, 100)]
    seen = schedule(f"easy(reservations={reservations})", jobs)
    assert seen.starts == {"J1": 0, "J2": 10, "J3": 0}


def test_the_surplus_is_used_up_by_those_who_live_on_it(schedule, job):
    jobs = [job("J1", 2, 10), job("J2", 3, 10), job("J3", 1, 100), job("J4", 1, 100)]
    assert schedule("easy", jobs).starts == {"J1": 0, "J2": 10, "J3": 0, "J4": 20}


def test_a_job_without_estimate_backfills_only_into_the_surplus(schedule, job):
    head = [job("J1", 2, 10), job("J2", 3, 10)]
    assert schedule("easy", [*head, job("J3", 1, 5, estimate=None)]).starts["J3"] == 0
    head = [job("J1", 2, 10), job("J2", 4, 10)]
    assert schedule("easy", [*head, job("J3", 1, 5, estimate=None)]).starts["J3"] == 20


def test_a_job_that_overruns_its_estimate_delays_the_head_unless_it_is_killed(schedule, job):
    jobs = [job("J1", 3, 10), job("J2", 4, 10), job("J3", 1, 30, estimate=10)]
    assert schedule("easy", jobs).starts["J2"] == 30
    seen = schedule("easy(kill_on_overrun=true)", jobs)
    assert seen.starts["J2"] == pytest.approx(10, abs=1e-4)
    assert seen.world.rejected == {"J3": "stopped after 10 s: it ran longer than its estimate"}
    assert seen.world.jobs["J3"].finish_s is None
    assert seen.runs["J3"] == [(0, 10)]


def test_a_job_that_keeps_its_estimate_is_not_killed_for_rounding(schedule, job):
    jobs = [job(f"J{i}", 1, 0.1 * (i + 1), at=0.7 * i) for i in range(9)]
    seen = schedule("easy(kill_on_overrun=true)", jobs, 2)
    assert not seen.world.rejected


def test_inflation_gives_time_before_the_kill(schedule, job):
    jobs = [job("J1", 4, 14, estimate=10), job("J2", 4, 16, estimate=10)]
    seen = schedule("easy(kill_on_overrun=true,inflation=1.5)", jobs)
    assert seen.runs == {"J1": [(0, 14)], "J2": [(14, 29)]}
    assert set(seen.world.rejected) == {"J2"}


def test_a_pinned_job_is_killed_too_and_its_gpus_are_used_at_once(schedule, job):
    jobs = [job("J1", 4, 30, estimate=10, preemptible=False), job("J2", 4, 10)]
    seen = schedule("easy(kill_on_overrun=true)", jobs)
    assert seen.runs == {"J1": [(0, 10)], "J2": [(10, 20)]}


def test_backfill_beats_hoarding(schedule, job):
    jobs = [job("J1", 2, 100), job("J2", 4, 50), job("J3", 1, 10)]
    assert schedule("easy", jobs).starts == {"J1": 0, "J2": 100, "J3": 0}


def test_the_shadow_counts_nodes_not_only_gpus(schedule, job):
    # At t=10 two GPUs are free, one on each node: J3, which must stand on one node, can start at 50 only.
    # So J4 may run for 40 s although by count the shadow would be at 10.
    jobs = [
        *(job("J1", 1, 10), job("J2", 1, 50), job("J2b", 1, 10), job("J2c", 1, 50)),
        *(job("J3", 2, 10, 1.0, max_nodes=1), job("J4", 1, 30, 11.0)),
    ]
    seen = schedule("easy", jobs, cluster=Cluster.uniform(2, 2))
    shapes = {i: grant.nodes for i, grant in seen.first[2].grants.items()}
    assert shapes["J1"] == shapes["J2"]
    assert shapes["J2b"] == shapes["J2c"]
    assert seen.starts["J3"] == 50
    assert seen.starts["J4"] == 11


def test_conservative_delays_nobody_where_easy_protects_only_the_head(schedule, job):
    # J2 can start at 10 beside J4, but J3, behind it, would have had all four GPUs at 20.
    jobs = [job("J1", 3, 10), job("J2", 3, 10), job("J3", 4, 10), job("J4", 1, 25)]
    assert schedule("easy", jobs).starts == {"J1": 0, "J2": 10, "J4": 0, "J3": 25}
    assert schedule("easy(reservations=all)", jobs).starts == {"J1": 0, "J2": 10, "J3": 20, "J4": 30}


@pytest.mark.parametrize("reservations", ["one", "all"])
def test_a_job_wider_than_the_cluster_holds_nobody_back(schedule, job, reservations):
    jobs = [job("J1", 9, 10), job("J2", 4, 10, estimate=None), job("J3", 2, 5)]
    seen = schedule(f"easy(reservations={reservations})", jobs)
    assert seen.starts["J2"] == 0
    assert seen.starts["J3"] == 10


@pytest.mark.parametrize("reservations", ["one", "all"])
def test_every_waiting_job_is_told_why_with_numbers(schedule, job, reservations):
    jobs = [job("J1", 3, 10), job("J2", 4, 10), job("J3", 1, 10), job("J4", 1, 12), job("J5", 2, 7)]
    for view, _, decision in schedule(f"easy(reservations={reservations})", jobs).decisions:
        assert decision.waiting.keys() == view.jobs.keys() - decision.grants.keys()
        assert all(any(c.isdigit() for c in why) for why in decision.waiting.values())


def test_the_head_is_told_when_it_may_start(schedule, job):
    seen = schedule("easy", [job("J1", 3, 10), job("J2", 4, 10), job("J4", 1, 12)])
    waiting = seen.first[2].waiting
    assert waiting["J2"] == "needs 4 GPUs, 1 is free; reserved to start in about 10 s"
    assert waiting["J4"] == (
        "would run 12 s and delay J2, which starts in about 10 s; beside it 0 GPUs are spare, this needs 1"
    )


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("easy(reservations=two)", "easy: reservations must be one or all, not 'two'"),
        ("easy(inflation=0)", "easy: inflation must be a positive number"),
        ("easy(inflation=x)", "option inflation is a number"),
        ("easy(kill_on_overrun=maybe)", "option kill_on_overrun is true or false"),
    ],
)
def test_bad_options_are_refused_by_name(written, message):
    with pytest.raises(OptionError, match=message):
        make_policy(written)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 30)), min_size=1, max_size=12))
def test_with_exact_estimates_and_one_arrival_time_conservative_is_never_later_than_strict_fifo(sizes):
    # Each job's first reservation is no later than its strict start, and exact estimates keep it.
    def starts(policy):
        jobs = [
            Arrival(f"j{i:02d}", 0.0, FixedJob(t, w), Request(w, max_workers=w), Kind.RIGID, declared_work=t)
            for i, (w, t) in enumerate(sizes)
        ]
        world = World(Cluster.uniform(1, 6), policy, jobs, Physics(restart_s=0.0))
        world.run()
        return {i: run.first_start_s for i, run in world.jobs.items()}

    strict, filled = starts(Fifo()), starts(Easy(reservations="all"))
    assert all(filled[i] <= strict[i] + 1e-3 for i in strict)
