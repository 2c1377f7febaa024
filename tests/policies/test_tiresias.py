"""Tiresias, on schedules and index values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from elastane.cluster import Cluster
from elastane.policies.options import OptionError
from elastane.policies.plan import Spread
from elastane.policies.registry import make_policy
from elastane.policies.tiresias import Tiresias, gittins_index
from elastane.policies.view import Info, JobView, Ledger, Request, View
from elastane.simcore.physics import Physics
from elastane.simcore.world import Outage


@pytest.mark.parametrize("fifo", ["arrival", "start"])
def test_service_is_gpus_times_seconds(schedule, job, fifo):
    # Quanta of one second and a queue for every GPU second: undiscretised least attained service.
    limits = "/".join(str(i) for i in range(1, 17))
    seen = schedule(
        Tiresias(thresholds=limits, fifo=fifo),
        [job("J1", 2, 2), job("J2", 1, 8), job("J3", 2, 6)],
        2,
        physics=Physics(restart_s=0.0, interval_s=1.0, rounds_only=True),
    )
    first_round_s = 1.0
    assert [finish - first_round_s for finish in seen.finishes] == [5, 14, 16]


@pytest.mark.parametrize(("restart_s", "end_s"), [(0.0, 120.0), (5.0, 125.0)])
def test_jobs_in_one_queue_do_not_preempt_each_other(schedule, job, restart_s, end_s):
    seen = schedule(
        "tiresias(thresholds=100)",
        [job("J1", 4, 100), job("J2", 4, 20, 10.0)],
        physics=Physics(restart_s=restart_s, first_start_s=0.0),
    )
    assert seen.runs == {"J1": [(0, 25), (45, end_s)], "J2": [(25, 45)]}


def test_the_demotion_instant_counts_service_from_before_the_suspension(schedule, job):
    # 40 of 100 GPU s attained before the node was lost; resumed at 50, 60 more at 4 a second end at 65.
    jobs = [job("J1", 4, 1000), job("J2", 4, 10, 60.0)]
    seen = schedule("tiresias(thresholds=100)", jobs, outages=[Outage("n000", 10, 50)], until_s=80)
    assert seen.at(50)[1].wake_s == (65.0,)
    assert seen.runs["J2"] == [(65, 75)]


def test_a_job_that_waited_long_enough_returns_to_the_first_queue(schedule, job):
    jobs = [job("J1", 1, 1000), *(job(f"S{i:02d}", 1, 50, 100.0 + 50 * i) for i in range(12))]
    seen = schedule("tiresias(thresholds=100,promote=2,fifo=start)", jobs, 1)
    assert seen.runs["J1"][:2] == [(0, 100), (300, 400)]
    assert [seen.runs[f"S{i:02d}"] for i in range(5)] == [
        *([(100, 150)], [(150, 200)], [(200, 250)], [(250, 300)]),
        [(400, 450)],
    ]
    off = schedule("tiresias(thresholds=100,fifo=start)", jobs, 1)
    assert off.runs["J1"] == [(0, 100), (700, 1600)]


def test_a_promotion_happens_at_its_instant_even_if_nothing_else_does(schedule, job):
    # At 40 both are in the last queue and A, having held 20 s, stops; it is due again 1.5 x 20 s later.
    jobs = [job("B", 1, 500), job("A", 1, 500, 5.0)]
    seen = schedule("tiresias(thresholds=20,promote=1.5)", jobs, 1, until_s=100)
    assert seen.runs["A"] == [(20, 40), (70, 90)]
    assert seen.runs["B"][:2] == [(0, 20), (40, 70)]


SAMPLES = np.array([4.0, 8.0, 12.0])


@pytest.mark.parametrize(
    ("attained", "index"), [(0.0, 1 / 12), (2.0, 0.1), (4.0, 0.125), (8.0, 0.25), (12.0, 0.0)]
)
def test_gittins_favours_the_older_job_where_most_jobs_are_long(attained, index):
    assert gittins_index(attained, 4.0, SAMPLES) == pytest.approx(index)


@pytest.mark.parametrize(("attained", "index"), [(0.0, 0.4), (1.0, 2 / 3), (2.0, 0.0)])
def test_gittins_favours_the_newcomer_where_most_jobs_are_short(attained, index):
    samples = np.array([2.0, 2.0, 2.0, 2.0, 100.0])
    assert gittins_index(attained, 2.0, samples) == pytest.approx(index, abs=1e-3)


@pytest.mark.parametrize(
    ("history", "order"), [((), ("new", "old")), ((4.0, 8.0, 12.0), ("old", "new"))], ids=["none", "some"]
)
def test_the_gittins_index_orders_a_queue_once_there_is_a_history(history, order):
    info = Info.HISTORY | Info.SKEW
    old = JobView("old", 1.0, Request(), ledger=Ledger(service_gpu_s=4.0), visible=info)
    new = JobView("new", 0.0, Request(), visible=info)
    nodes = Cluster.uniform(1, 1).nodes
    view = View(10.0, {"old": old, "new": new}, nodes, finished_service_gpu_s=history, visible=info)
    assert Tiresias(thresholds="100", index="gittins").decide(view).intent.jobs == order


@pytest.mark.parametrize(("skew", "starts"), [(0.9, 50.0), (0.1, 2.0), (None, 2.0)])
def test_only_models_with_a_dominant_tensor_wait_for_one_node(schedule, job, skew, starts):
    # One GPU is taken on each of two nodes of four.
    jobs = [job("A", 1, 100), job("B", 1, 50), job("J", 4, 10, 2.0, skew=skew)]
    seen = schedule("tiresias", jobs, cluster=Cluster.uniform(2, 4))
    assert seen.starts["J"] == starts
    shape = seen.at(starts)[2].grants["J"].shape
    assert sorted(shape) == ([4] if skew == 0.9 else [1, 3])


def test_a_low_skew_prefers_fragments(schedule, job):
    jobs = [job("A", 3, 100), job("J", 1, 10, 2.0, skew=0.1), job("K", 1, 10, 2.0)]
    seen = schedule("tiresias", jobs, cluster=Cluster.uniform(2, 4))
    assert seen.at(2)[1].intent.spread_of == {"J": Spread.FRAGMENTS}
    assert seen.at(2)[2].grants["J"].nodes == seen.first[2].grants["A"].nodes


def test_the_demotion_of_a_job_that_runs_because_another_found_no_place_is_not_missed(schedule, job):
    # By count J (consolidated, 4 GPUs) would run and C would not; in truth J waits and C runs.
    # C is demoted at 10 + 30 / 2 = 25, when D, which arrived later, must get its GPUs.
    jobs = [
        *(job("A", 1, 1000), job("B", 1, 1000)),
        *(job("J", 4, 10, 2.0, skew=0.9), job("C", 6, 500, 10.0), job("D", 6, 20, 12.0)),
    ]
    seen = schedule("tiresias(thresholds=90)", jobs, cluster=Cluster.uniform(2, 4), until_s=60)
    assert seen.runs["C"][0] == (10, 25)
    assert seen.runs["D"][0][0] == 25


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("tiresias(index=random)", "index must be las or gittins"),
        ("tiresias(fifo=end)", "fifo must be arrival or start"),
        ("tiresias(thresholds=a/b)", "thresholds are numbers"),
        ("tiresias(thresholds=9/3)", "thresholds must be positive and increasing"),
        ("tiresias(thresholds=0)", "thresholds must be positive and increasing"),
        ("tiresias(promote=-1)", "promote must be 0"),
        ("tiresias(pack_limit=2)", "pack_limit is a share"),
        ("tiresias(treshold=3)", "no option 'treshold'"),
    ],
)
def test_bad_options_are_refused_by_name(written, message):
    with pytest.raises(OptionError, match=message):
        make_policy(written)
