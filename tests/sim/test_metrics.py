"""Every figure against one worked by hand, and the properties figures must have on any run."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.sim.metrics import Timeline, downsampled, jct_cdf, rho, rho_cdf, summarise, timeline
from elastane.sim.result import JobRecord, RunResult, Stretch

A = JobRecord(
    id="a", app="resnet", tenant="t", submit_s=0, start_s=10, finish_s=110, requested_gpus=2,
    service_gpu_s=260, restart_gpu_s=20, restarts=1, isolated_s=100,
    stretches=(Stretch(10, 60, 2, 1, 64, 0.5), Stretch(70, 110, 4, 1, 64, 1.0, restarting_s=5)),
)  # fmt: skip
B = JobRecord(
    id="b", app="bert", tenant="t", submit_s=50, start_s=50, finish_s=100, requested_gpus=1,
    service_gpu_s=50, restart_gpu_s=0, restarts=0, isolated_s=100,
    stretches=(Stretch(50, 100, 1, 1, 12, 0.8),),
)  # fmt: skip
C = JobRecord(
    id="c", app="bert", tenant="t", submit_s=20, start_s=None, finish_s=None, requested_gpus=1,
    service_gpu_s=0, restart_gpu_s=0, restarts=0, isolated_s=100,
)  # fmt: skip


def run(*jobs: JobRecord, total_gpus: int = 8, decision_ms: tuple[float, ...] = (3, 1, 10, 2)) -> RunResult:
    return RunResult(
        policy="p", title="P", parameters={}, oracle=False, workload="w", physics={}, seed=1,
        total_gpus=total_gpus, jobs=jobs, decision_ms=decision_ms, wall_s=1.5, cpu_s=1.25,
    )  # fmt: skip


EXPECTED = {
    "jobs": 2,
    "finished": 2,
    "unfinished": 0,
    "mean_jct_s": (110 + 50) / 2,
    "median_jct_s": 80,
    "p90_jct_s": 50 + 0.90 * 60,
    "p99_jct_s": 50 + 0.99 * 60,
    "mean_jct_bound_s": 80,
    "gpu_weighted_jct_s": (110 * 260 + 50 * 50) / 310,
    "makespan_s": 110,
    "mean_queue_s": (20 + 0) / 2,  # a waits 10 s before its start and 10 s between its stretches
    "p99_queue_s": 0.99 * 20,
    "mean_rho": (1.1 + 0.5) / 2,
    "p99_rho": 0.5 + 0.99 * 0.6,
    "max_rho": 1.1,
    "unfair_share": 0.5,
    "utilisation": 310 / (8 * 110),
    "mean_efficiency": (100 * 0.5 + 160 * 1.0 + 50 * 0.8) / 310,
    "restarts_per_job": 0.5,
    "restart_gpu_hours": 20 / 3600,
    "gpu_hours": 310 / 3600,
    "decision_ms_p50": 2.5,
    "decision_ms_p99": 3 + 0.97 * 7,
    "decision_ms_max": 10,
    "wall_s": 1.5,
    "cpu_s": 1.25,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_figure_by_hand(name: str) -> None:
    assert getattr(summarise(run(A, B)), name) == pytest.approx(EXPECTED[name])


def test_complete_run_has_no_caveats() -> None:
    assert summarise(run(A, B)).notes == ()


def test_unfinished_jobs_are_counted_and_named_not_averaged_away() -> None:
    summary = summarise(run(A, B, C))
    assert (summary.jobs, summary.finished, summary.unfinished) == (3, 2, 1)
    assert summary.mean_jct_s == pytest.approx(80)
    assert summary.mean_jct_bound_s == pytest.approx((110 + 50 + 90) / 3)
    assert summary.mean_queue_s == pytest.approx((20 + 0 + 90) / 3)
    assert "1 of 3 jobs did not finish" in summary.notes[0]


def test_makespan_reaches_the_end_of_the_run_when_jobs_are_left() -> None:
    late = replace(C, start_s=120, stretches=(Stretch(120, 500, 1, 1, 12, 1.0),))
    assert summarise(run(A, late)).makespan_s == 500


def test_notes_of_the_run_come_first() -> None:
    assert summarise(replace(run(A, C), notes=("stopped early",))).notes[0] == "stopped early"


def test_nothing_finished_leaves_figures_undefined() -> None:
    summary = summarise(run(C, decision_ms=()))
    assert summary.mean_jct_s is None
    assert summary.max_rho is None
    assert summary.mean_efficiency is None
    assert summary.decision_ms_p50 is None


def test_empty_run() -> None:
    summary = summarise(run())
    assert (summary.jobs, summary.makespan_s, summary.utilisation, summary.gpu_hours) == (0, None, None, 0)
    assert len(timeline(run()).times_s) == 0


def test_without_stretches_queueing_is_the_time_before_the_start() -> None:
    assert summarise(run(replace(A, stretches=()))).mean_queue_s == 10


def test_stretches_without_gpus_are_waiting() -> None:
    idle = Stretch(60, 70, 0, 0, 64, 1.0)
    with_idle = replace(A, stretches=(A.stretches[0], idle, A.stretches[1]))
    assert summarise(run(with_idle)) == summarise(run(A))


def test_unknown_time_alone_is_left_out_of_rho_and_said() -> None:
    summary = summarise(run(A, replace(B, isolated_s=float("inf"))))
    assert summary.mean_rho == pytest.approx(1.1)
    assert "1 finished job" in summary.notes[0]


def test_rho_of_a_job() -> None:
    assert rho(A) == pytest.approx(1.1)
    assert rho(C) is None
    assert rho(replace(A, isolated_s=0)) is None


def test_cdf_by_hand_counts_unfinished_jobs() -> None:
    cdf = jct_cdf([run(A, B), run(A, C)])
    assert cdf.values.tolist() == [50, 110, 110]
    assert cdf.share.tolist() == [0.25, 0.5, 0.75]
    assert rho_cdf([run(A, B)]).values.tolist() == pytest.approx([0.5, 1.1])


def test_timeline_by_hand() -> None:
    line = timeline(run(A, B))
    assert line.times_s.tolist() == [0, 10, 50, 60, 70, 100, 110]
    assert line.gpus.tolist() == [0, 2, 3, 1, 5, 4, 0]
    assert line.running.tolist() == [0, 1, 2, 1, 2, 1, 0]
    assert line.waiting.tolist() == [1, 0, 0, 1, 0, 0, 0]
    np.testing.assert_allclose(line.efficiency, [np.nan, 0.5, 0.6, 0.8, 0.96, 1.0, np.nan])


def test_downsampling_by_hand() -> None:
    line = downsampled(timeline(run(A, B)), 3)  # two intervals of 55 s
    assert line.times_s.tolist() == [0, 55, 110]
    np.testing.assert_allclose(line.gpus, [(2 * 40 + 3 * 5) / 55, (3 * 5 + 10 + 5 * 30 + 40) / 55, 0])
    useful = (1.8 * 5 + 0.8 * 10 + 4.8 * 30 + 4.0 * 10) / (15 + 10 + 150 + 40)
    assert line.efficiency[1] == pytest.approx(useful)


def test_short_timelines_are_kept_exact() -> None:
    line = timeline(run(A, B))
    assert downsampled(line, 7) is line


@st.composite
def runs(draw: st.DrawFn) -> RunResult:
    """Runs that respect the cluster: each job has GPUs of its own, so the sum never exceeds the total."""
    jobs = [draw(_job(str(i))) for i in range(draw(st.integers(0, 8)))]
    return run(*jobs, total_gpus=max(1, 4 * len(jobs)))


@st.composite
def _job(draw: st.DrawFn, name: str) -> JobRecord:
    seconds = st.floats(0.1, 1e4)
    submit = now = draw(st.floats(0, 1e5))
    stretches = []
    for _ in range(draw(st.integers(0, 5))):
        start = now + draw(st.floats(0, 1e3))
        now = start + draw(seconds)
        stretches.append(Stretch(start, now, draw(st.integers(0, 4)), 1, 8, draw(st.floats(0.01, 1))))
    return JobRecord(
        id=name, app="x", tenant="t", submit_s=submit, start_s=stretches[0].start_s if stretches else None,
        finish_s=now if stretches and draw(st.booleans()) else None, requested_gpus=1,
        service_gpu_s=sum(s.gpus * (s.end_s - s.start_s) for s in stretches), restart_gpu_s=0,
        restarts=len(stretches), isolated_s=draw(seconds), stretches=tuple(stretches),
    )  # fmt: skip


@given(runs(), st.randoms())
def test_order_of_records_changes_nothing(result: RunResult, rng: random.Random) -> None:
    shuffled = list(result.jobs)
    rng.shuffle(shuffled)
    assert summarise(replace(result, jobs=tuple(shuffled))) == summarise(result)


@given(runs())
def test_bounds_that_hold_on_any_run(result: RunResult) -> None:
    summary = summarise(result)
    assert summary.finished + summary.unfinished == summary.jobs
    assert summary.utilisation is None or 0 <= summary.utilisation <= 1 + 1e-9
    assert summary.mean_efficiency is None or 0 <= summary.mean_efficiency <= 1 + 1e-9
    assert summary.unfair_share is None or 0 <= summary.unfair_share <= 1
    if summary.mean_jct_s is not None:
        ordered = (summary.median_jct_s, summary.p90_jct_s, summary.p99_jct_s, summary.makespan_s)
        assert all(a <= b * (1 + 1e-9) for a, b in pairwise(ordered))


@given(runs())
def test_cdfs_rise_to_the_finished_share(result: RunResult) -> None:
    for cdf in (jct_cdf([result]), rho_cdf([result])):
        assert (np.diff(cdf.values) >= 0).all()
        assert (np.diff(cdf.share) > 0).all()
        assert (cdf.values > 0).all()
    if result.jobs:
        summary = summarise(result)
        assert len(jct_cdf([result]).share) == summary.finished


def _area(line: Timeline, values: np.ndarray) -> float:
    return float((np.nan_to_num(values[:-1]) * np.diff(line.times_s)).sum())


@given(runs(), st.integers(2, 6))
def test_area_under_gpus_is_the_service_even_downsampled(result: RunResult, limit: int) -> None:
    service = sum(job.service_gpu_s for job in result.jobs)
    line = timeline(result)
    assert _area(line, line.gpus) == pytest.approx(service, abs=1e-3)
    coarse = downsampled(line, limit)
    assert len(coarse.times_s) <= limit or coarse is line
    assert _area(coarse, coarse.gpus) == pytest.approx(service, abs=1e-3)
    assert _area(coarse, coarse.gpus * coarse.efficiency) == pytest.approx(
        _area(line, line.gpus * line.efficiency), abs=1e-2
    )


@given(runs())
def test_job_counts_never_go_below_zero(result: RunResult) -> None:
    line = timeline(result)
    assert (line.waiting >= 0).all()
    assert (line.running >= 0).all()
    assert not line.running[-1:].any()


@pytest.mark.slow
def test_a_million_stretches_take_seconds() -> None:
    stretches = tuple(Stretch(i, i + 0.5, 1, 1, 8, 0.5) for i in range(100))
    jobs = [replace(B, id=str(i), submit_s=0, finish_s=100, stretches=stretches) for i in range(10_000)]
    begun = time.process_time()
    summarise(run(*jobs))
    timeline(run(*jobs))
    assert time.process_time() - begun < 20
