"""FIFO in its three modes, on schedules computed by hand."""

from __future__ import annotations

import pytest

from elastane.cluster import Cluster
from elastane.policies.options import OptionError
from elastane.policies.registry import make_policy
from elastane.simcore.world import Outage


@pytest.fixture
def four(job):
    return [job("J1", 3, 10), job("J2", 4, 10), job("J3", 1, 10), job("J4", 1, 12)]


def test_strict_lets_nobody_overtake_the_first_that_does_not_fit(schedule, four):
    assert schedule("fifo", four).starts == {"J1": 0, "J2": 10, "J3": 20, "J4": 20}


def test_fit_starts_whatever_fits_and_so_delays_wide_jobs(schedule, job):
    # At 10 J3 still runs, so J4 overtakes J2 as well.
    jobs = [job("J1", 3, 10), job("J2", 4, 10), job("J3", 1, 15), job("J4", 1, 12)]
    assert schedule("fifo(mode=fit)", jobs).starts == {"J1": 0, "J2": 22, "J3": 0, "J4": 10}


def test_hoard_keeps_gpus_idle_for_the_head_and_says_how_many(schedule, job):
    jobs = [job("J1", 2, 100), job("J2", 4, 50), job("J3", 1, 10)]
    seen = schedule("fifo(mode=hoard)", jobs)
    assert seen.starts == {"J1": 0, "J2": 100, "J3": 150}
    _, plan, decision = seen.first
    assert plan.holds == {"J2": 2}
    assert decision.waiting["J2"] == (
        "first in the queue: needs 4 GPUs, 2 are free and kept idle for it; 2 more must become free"
    )
    assert "J2" in decision.waiting["J3"]


def test_only_hoard_reports_holds(schedule, four):
    assert all(not plan.holds for _, plan, _ in schedule("fifo", four).decisions)


@pytest.mark.parametrize("mode", ["strict", "hoard", "fit"])
def test_every_waiting_job_is_told_why_with_numbers(schedule, four, mode):
    for view, _, decision in schedule(f"fifo(mode={mode})", four).decisions:
        assert decision.waiting.keys() == view.jobs.keys() - decision.grants.keys()
        assert all(any(c.isdigit() for c in why) for why in decision.waiting.values())


def test_priority_comes_before_arrival_and_names_break_ties(schedule, job):
    jobs = [job("b", 4, 10), job("a", 4, 10), job("c", 4, 10, 1.0, priority=1)]
    assert schedule("fifo", jobs).starts == {"a": 0, "c": 10, "b": 20}


def test_a_running_job_is_never_stopped_for_one_of_higher_priority(schedule, job):
    seen = schedule("fifo", [job("J1", 4, 100), job("J2", 4, 10, 5.0, priority=9)])
    assert seen.runs == {"J1": [(0, 100)], "J2": [(100, 110)]}


def test_a_job_that_lost_its_node_queues_at_its_old_place(schedule, job):
    jobs = [job("J1", 2, 100), job("J2", 2, 100), job("J3", 2, 10, 1.0)]
    seen = schedule("fifo", jobs, cluster=Cluster.uniform(2, 2), outages=[Outage("n000", 50, 60)])
    assert seen.runs["J1"] == [(0, 50), (60, 160)]  # the last checkpoint was its start
    assert seen.runs["J2"] == [(0, 100)]
    assert seen.runs["J3"] == [(100, 110)]


def test_a_job_whose_place_cannot_be_found_does_not_stop_running_ones(schedule, job):
    jobs = [job("J1", 3, 100), job("J2", 3, 100), job("J3", 2, 10, 1.0, max_nodes=1)]
    seen = schedule("fifo", jobs, cluster=Cluster.uniform(2, 4))
    assert seen.runs == {"J1": [(0, 100)], "J2": [(0, 100)], "J3": [(100, 110)]}


def test_a_bad_mode_is_refused_by_name():
    with pytest.raises(OptionError, match="fifo: mode must be strict, hoard or fit, not 'lifo'"):
        make_policy("fifo(mode=lifo)")
