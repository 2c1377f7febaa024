"""Workloads of Optimus's kind: what they hold, how they are named, and that they run to their end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastane.cluster import Cluster
from elastane.errors import ElastaneError
from elastane.jobs.kinds import Kind
from elastane.models.catalog import catalog
from elastane.sim.attach_truth import Binding, bind
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec
from elastane.sim.truth.server_kinds import KINDS
from elastane.sim.workloads import parse_workload
from elastane.sim.workloads.optimus_like import PERIOD_S, PREFIX, is_server_app, optimus_like
from elastane.sim.workloads.trace import TraceJob


def test_the_default_is_twenty_seven_jobs_within_the_papers_period() -> None:
    jobs = parse_workload("optimus:1").jobs
    assert len(jobs) == 27
    assert all(0.0 <= job.submit_s <= PERIOD_S for job in jobs)
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    assert max(job.submit_s for job in jobs) > 0.5 * PERIOD_S
    assert len({job.id for job in jobs}) == 27


def test_every_kind_comes_and_none_clashes_with_the_catalog() -> None:
    apps = {job.app for job in optimus_like(0, jobs=300).jobs}
    assert apps == {PREFIX + name for name in KINDS}
    assert not any(is_server_app(name) for name in catalog())
    assert not is_server_app(None)


def test_a_seed_is_one_workload() -> None:
    assert optimus_like(3) == optimus_like(3)
    assert optimus_like(3).jobs != optimus_like(4).jobs


def test_the_period_does_not_change_what_is_submitted() -> None:
    short, long = optimus_like(2, hours=1.0), optimus_like(2, hours=10.0)
    assert [(j.id, j.gpus, j.app) for j in short.jobs] == [(j.id, j.gpus, j.app) for j in long.jobs]
    assert short.jobs[-1].submit_s == pytest.approx(long.jobs[-1].submit_s / 10.0, abs=0.01)


def test_keys_and_load_count() -> None:
    assert len(parse_workload("optimus:1,jobs=5,hours=2", load=2.0).jobs) == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optimus:x", "whole number as its seed"),
        ("optimus:1,job=3", "unknown key 'job'"),
        ("optimus:1,jobs=0", "at least one job"),
        ("optimus:1,hours=0", "hours"),
        ("optimus", "optimus:N"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(ElastaneError, match=message):
        parse_workload(text)


def test_a_row_becomes_a_job_with_servers() -> None:
    trace = optimus_like(1, jobs=6)
    arrivals, _ = bind(trace, Cluster.uniform(2, 4), Binding(rigid=1.0), 0)
    for row, arrival in zip(trace.jobs, arrivals, strict=True):
        assert arrival.request.workers == row.gpus
        assert arrival.request.max_workers == arrival.request.max_servers == 8  # all there is
        assert arrival.server_training is not None
        assert arrival.kind is Kind.RIGID
        assert arrival.declared_s is not None
        assert arrival.declared_s > 0.0


def test_unknown_kinds_and_foreign_lengths_are_refused() -> None:
    trace, cluster = optimus_like(1, jobs=1), Cluster.uniform(2, 4)
    with pytest.raises(ElastaneError, match="did you mean 'resnet50-sync'"):
        bind(replace(trace, jobs=(TraceJob("a", 0.0, app="ps/resnet50-sinc"),)), cluster, Binding(), 0)
    with pytest.raises(ElastaneError, match="their own batch and length"):
        bind(replace(trace, jobs=(TraceJob("a", 0.0, app="ps/rnn-async", batch=8),)), cluster, Binding(), 0)


@pytest.mark.parametrize("policy", ["optimus", "optimus-oracle", "fifo", "drf", "easy", "tiresias", "pollux"])
def test_every_job_finishes_and_has_a_fair_share_to_compare_with(policy: str) -> None:
    result = simulate(RunSpec("optimus:1,jobs=12", policy, cluster="13x4:t4"))
    assert len(result.jobs) == 12
    for job in result.jobs:
        assert job.finish_s is not None
        assert 0.0 < job.isolated_s < float("inf")


def test_optimus_beats_the_papers_baseline() -> None:
    ends = {p: simulate(RunSpec("optimus:1", p, cluster="13x4:t4")).jobs for p in ("optimus", "drf")}
    jct_s = {p: sum((j.finish_s or 0.0) - j.submit_s for j in jobs) for p, jobs in ends.items()}
    assert jct_s["optimus"] < 0.9 * jct_s["drf"]
