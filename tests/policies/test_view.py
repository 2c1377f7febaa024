"""What a policy sees: only what it declared, and sums that are true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastane.cluster import Cluster, Grant, Node
from elastane.models.estimate import Estimate
from elastane.policies.view import (
    ELASTIC,
    Ability,
    Facts,
    Info,
    JobState,
    JobView,
    Ledger,
    MaskedInformation,
    Request,
    View,
    has,
    masked,
)
from elastane.resources import Resources
from elastane.testing.policies.views import speed_model

FACTS = Facts(Estimate(5.0), speed_model(), ((0.0, 1.0),), 60.0, 0.5)
READERS = {
    Info.REMAINING: lambda job: job.remaining,
    Info.SPEED: lambda job: job.speed,
    Info.LOSSES: lambda job: job.losses,
    Info.DEADLINE: lambda job: job.deadline_s,
    Info.SKEW: lambda job: job.skew,
}


def one_job(job: JobView, *nodes: Node) -> View:
    return View(now_s=100.0, jobs={job.id: job}, nodes={node.id: node for node in nodes})


@pytest.mark.parametrize("info", READERS)
def test_reading_a_fact_that_was_not_declared_raises_and_names_the_flag(info: Info) -> None:
    job = masked(one_job(JobView("j", 0.0, Request(), facts=FACTS)), ~info).jobs["j"]
    with pytest.raises(MaskedInformation, match=rf"Info\.{info.name} of job j"):
        READERS[info](job)


@pytest.mark.parametrize("info", READERS)
def test_a_declared_fact_is_readable_though_all_others_are_masked(info: Info) -> None:
    job = masked(one_job(JobView("j", 0.0, Request(), facts=FACTS)), info).jobs["j"]
    assert READERS[info](job) is not None
    for other, read in READERS.items():
        if other is not info:
            with pytest.raises(MaskedInformation):
                read(job)


def test_history_is_masked_too() -> None:
    view = replace(one_job(JobView("j", 0.0, Request())), finished_service_gpu_s=(1.0,))
    with pytest.raises(MaskedInformation, match="HISTORY"):
        _ = masked(view, ~Info.HISTORY).history
    assert masked(view, Info.HISTORY).history == (1.0,)


def test_masking_changes_nothing_but_what_is_visible() -> None:
    view = one_job(JobView("j", 0.0, Request(), facts=FACTS))
    once = masked(view, Info.SPEED)
    assert masked(once, Info.NONE) == view
    assert masked(once, Info.SPEED).jobs["j"] is once.jobs["j"]


def test_has_asks_for_any_bit() -> None:
    assert has(Info.SPEED | Info.SKEW, Info.SKEW)
    assert has(Info.SKEW, Info.SPEED | Info.SKEW)
    assert not has(Info.SKEW, Info.SPEED)
    assert not has(Ability.NONE, Ability.SUSPEND)


def test_service_grows_while_gpus_are_held() -> None:
    held = Ledger(as_of_s=10.0, gpus=4, service_gpu_s=100.0, held_s=25.0)
    assert (held.service_at(20.0), held.held_at(20.0)) == (140.0, 35.0)
    idle = replace(held, gpus=0)
    assert (idle.service_at(20.0), idle.held_at(20.0)) == (100.0, 25.0)


@pytest.mark.parametrize(
    ("change", "pinned"),
    [
        ({}, False),
        ({"request": Request(preemptible=False)}, True),
        ({"abilities": ELASTIC & ~Ability.SUSPEND}, True),
        ({"request": Request(preemptible=False), "grant": None}, False),
    ],
)
def test_only_a_running_job_that_cannot_stop_is_pinned(change: dict[str, object], pinned: bool) -> None:
    running = JobView("j", 0.0, Request(), state=JobState.RUNNING, grant=Grant.of([("n", 1)]))
    assert replace(running, **change).pinned is pinned  # type: ignore[arg-type]


def pinned_on(*counts: tuple[str, int]) -> JobView:
    return JobView("j", 0.0, Request(preemptible=False), grant=Grant.of(counts))


def test_a_pinned_job_keeps_its_grant_only_while_its_nodes_exist() -> None:
    assert one_job(pinned_on(("a", 1)), Node("a", 2)).must_keep(pinned_on(("a", 1)))
    torn = pinned_on(("a", 1), ("gone", 1))
    assert not one_job(torn, Node("a", 2)).must_keep(torn)


def test_of_draining_nodes_only_what_pinned_jobs_keep_counts() -> None:
    view = one_job(pinned_on(("a", 1), ("b", 3)), Node("a", 4), Node("b", 4, draining=True))
    assert view.kept_on_draining() == {"b": 3}
    assert view.total_gpus == 4 + 3


def test_reach_is_one_accepted_type_on_no_more_nodes_than_allowed() -> None:
    nodes = [
        Node("a", 8, "t4"),
        Node("b", 4, "v100"),
        Node("c", 6, "v100"),
        Node("d", 9, "v100", draining=True),
    ]
    view = one_job(JobView("j", 0.0, Request()), *nodes)
    assert view.reach(Request()) == 10
    assert view.reach(Request(types=("t4",))) == 8
    assert view.reach(Request(max_nodes=1)) == 8
    assert view.reach(Request(types=("none such",))) == 0
    assert view.reach(Request(worker=Resources(gpus=3.0))) == 1 + 2


def test_workers_take_whole_gpus() -> None:
    assert Request().gpus_of(3) == 3
    assert Request(worker=Resources(gpus=0.5)).gpus_of(3) == 2
    assert Request(worker=Resources(gpus=2.0)).gpus_of(3) == 6


def test_totals_of_a_plain_cluster() -> None:
    view = View(0.0, {}, Cluster.uniform(3, 4).nodes)
    assert view.total_gpus == 12
    assert view.total_capacity.gpus == 12.0
