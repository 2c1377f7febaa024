"""When a job will be done, and what more workers would do for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastane.cluster import Node
from elastane.jobs.states import State
from elastane.models.goodput import BatchLimits
from elastane.models.throughput import ThroughputParams
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.eta import curve_of, end_of
from elastane.service.messages import Eta
from elastane.testing.engines.fake_work import FakeWork
from elastane.train.reports.events import Fitted, Resized
from service.helpers import ANN, World, started, window, world


def after(*windows: tuple[float, float | None]) -> JobMeasurements:
    learned = JobMeasurements("adaptive")
    for at_s, fraction in windows:
        learned.hear(window(at_s, fraction))
    return learned


@pytest.mark.parametrize("samples", [2000, 20_000])
def test_the_true_end_of_a_steady_job_lies_in_every_range_it_was_told(tmp_path: Path, samples: int) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=samples)
        w.service.scale(ANN, job, 2)
        told = []
        while w.state(job) is not State.SUCCEEDED:
            w.pass_time(0.7, 0.7)
            eta = w.line(job).eta
            if eta is not None and eta.mid_s is not None and w.live(job).places == {"n0": 2}:
                told.append(eta)
        end_s = w.row(job).ended_s
        assert end_s is not None
        assert len(told) > 5
        for eta in told:
            assert eta.low_s is not None
            assert eta.mid_s is not None
            assert eta.high_s is not None
            assert eta.low_s <= end_s + 1e-6
            assert end_s <= eta.high_s + 1e-6
            assert eta.low_s <= eta.mid_s <= eta.high_s


def test_a_range_becomes_narrower_as_more_is_seen() -> None:
    def width(count: int) -> float:
        eta = end_of(after(*((float(n), n / 1000) for n in range(1, count))), float(count), True)
        assert eta is not None
        assert eta.high_s is not None
        assert eta.low_s is not None
        return eta.high_s - eta.low_s

    assert width(30) < width(10) < width(5)


def test_an_uneven_pace_makes_a_wider_range() -> None:
    even = end_of(after(*((float(n), n / 100) for n in range(1, 21))), 21.0, True)
    odd = end_of(after(*((float(n), (n + 3 * (n % 2)) / 100) for n in range(1, 21))), 21.0, True)
    assert even is not None
    assert odd is not None
    assert (odd.high_s or 0.0) - (odd.low_s or 0.0) > (even.high_s or 0.0) - (even.low_s or 0.0)


@pytest.mark.parametrize(
    ("learned", "running", "words"),
    [
        (after(), True, "does not say how much"),
        (after((1.0, None)), True, "does not say how much"),
        (after((1.0, 0.1)), False, "while it waits"),
        (after((1.0, 0.1), (2.0, 0.2)), True, "too little was seen"),
        (after((1.0, 0.3), (2.0, 0.3), (3.0, 0.3)), True, "no progress"),
    ],
)
def test_what_cannot_be_said_is_said_to_be_unknown(learned: JobMeasurements, running: bool, words: str) -> None:
    eta = end_of(learned, 3.0, running)
    assert eta is not None
    assert eta.mid_s is None
    assert words in eta.basis


def test_the_pace_before_a_change_is_not_the_pace_after_it() -> None:
    learned = after(*((float(n), n / 1000) for n in range(1, 11)))
    learned.hear(Resized(20.0, 1, "grow", 1, 4, 10, 10.0))
    assert "too little" in (end_of(learned, 20.0, True) or window).basis  # type: ignore[union-attr]
    for n in range(1, 6):
        learned.hear(window(20.0 + n, 0.010 + 0.099 * n))
    eta = end_of(learned, 25.0, True)
    assert eta is not None
    assert eta.mid_s == pytest.approx(30.0)


def test_an_end_is_never_told_to_be_in_the_past() -> None:
    eta = end_of(after((1.0, 0.3), (2.0, 0.6), (3.0, 0.9)), 5.0, True)
    assert eta is not None
    assert eta.low_s == eta.mid_s == eta.high_s == 5.0


def test_what_was_left_when_a_job_fell_silent_is_still_to_be_done() -> None:
    eta = end_of(after((1.0, 0.3), (2.0, 0.6), (3.0, 0.9)), 100.0, True)
    assert eta is not None
    assert eta.mid_s == pytest.approx(100.0 + 1 / 3)
    assert 100.0 < (eta.low_s or 0.0) <= eta.mid_s <= (eta.high_s or 0.0)


def test_the_curve_is_that_of_the_work_and_marks_what_was_measured_and_chosen() -> None:
    work = FakeWork(sync_s=0.05)
    learned = JobMeasurements("adaptive")
    for workers in (1, 2, 4):
        learned.hear(Resized(0.0, 1, "grow", 1, workers, 0, 1.0))
        for n in range(5):
            event = window(
                float(n),
                0.1,
                workers,
                compute_s=work.compute_s(workers),
                sync_s=work.pause_s(workers, 1),
            )
            learned.hear(event)
    curve = curve_of(learned, {"n0": Node("n0", 4, "cpu")}, 4, 2)
    assert [point.workers for point in curve] == [1, 2, 3, 4]
    assert {point.workers for point in curve if point.measured} == {1, 2, 4}
    assert [point.workers for point in curve if point.chosen] == [2]
    for point in curve:
        true = work.rate(point.workers, 1) / work.rate(1, 1)
        assert point.speedup == pytest.approx(true, rel=0.05)


def test_there_is_no_curve_before_anything_was_measured() -> None:
    assert curve_of(JobMeasurements("adaptive"), {"n0": Node("n0", 4, "cpu")}, 4, 1) == []
    assert curve_of(after((1.0, 0.1), (2.0, 0.2), (3.0, 0.3)), {}, 4, 1) == []


def test_a_size_that_does_not_divide_the_batch_has_a_speed_like_any_other() -> None:
    learned = JobMeasurements("adaptive")
    for workers in (1, 2, 4):
        learned.hear(Resized(0.0, 1, "grow", 1, workers, 0, 1.0))
        for n in range(5):
            learned.hear(window(float(n), 0.1, workers, sync_s=0.01 if workers > 1 else 0.0))
    # What a script in fixed mode says of itself: one batch, however many workers.
    theta = ThroughputParams(0.01, 0.01, 0.1, 0.01, 0.05, 0.01, 1.0)
    learned.hear(Fitted(6.0, theta, None, BatchLimits(32, 32, 1, 32), 4))
    curve = curve_of(learned, {"n0": Node("n0", 4, "cpu")}, 4, 3)
    speedups = [point.speedup for point in curve]
    assert [point.workers for point in curve] == [1, 2, 3, 4]
    assert speedups == sorted(speedups)
    assert speedups[1] < speedups[2] < speedups[3]


def test_sizes_that_no_batch_can_be_divided_among_are_left_out() -> None:
    learned = after(*((float(n), n / 100) for n in range(1, 6)))
    theta = ThroughputParams(0.01, 0.01, 0.1, 0.01, 0.05, 0.01, 1.0)
    learned.hear(Fitted(6.0, theta, None, BatchLimits(32, 32, 10, 32), 1))
    curve = curve_of(learned, {"n0": Node("n0", 8, "cpu")}, 8, 1)
    assert [point.workers for point in curve] == [1, 2, 3]
    assert all(point.speedup > 0.0 for point in curve)


def test_the_scheduler_gives_three_slots_to_a_job_whose_batch_three_do_not_divide(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=3) as w:
        job = started(w, samples=200_000, sync_s=0.001)
        theta = ThroughputParams(0.01, 0.01, 0.001, 0.001, 0.001, 0.001, 1.0)
        w.live(job).learned.hear(Fitted(w.clock.now_s, theta, None, BatchLimits(32, 32, 1, 32), 1))
        w.pass_time(300.0, 5.0)
        assert w.live(job).learned.limits == BatchLimits(32, 32, 1, 32)
        assert w.workers(job) == 3
        assert [point.speedup > 1.0 for point in w.service.job(job).curve] == [False, True, True]


def put_aside(w: World) -> str:
    """A job that has trained for ten of thirty seconds and is on hold."""
    job = started(w, samples=3000, workers=1)
    w.pass_time(10.0)
    w.service.suspend(ANN, job)
    w.until_state(job, State.SUSPENDED)
    return job


def test_the_end_of_a_suspended_job_is_foreseen_from_its_speed_and_from_those_before_it(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, policy="fifo(mode=fit)") as w:
        first = put_aside(w)
        assert "on hold" in (w.line(first).eta or Eta()).basis
        second = started(w, samples=2000, workers=1)
        w.pass_time(8.0)
        w.service.resume(ANN, first)
        w.pass_time(1.0)
        assert w.state(first) is State.SUSPENDED
        eta = w.line(first).eta
        assert eta is not None
        assert eta.low_s is not None
        assert eta.high_s is not None
        assert eta.low_s >= w.clock.now_s
        assert eta == next(line.eta for line in w.service.jobs("active") if line.id == first)
        w.until_state(first, State.SUCCEEDED)
        assert w.state(second) is State.SUCCEEDED
        assert eta.low_s <= (w.row(first).ended_s or 0.0) <= eta.high_s


def test_the_end_of_a_queued_job_whose_speed_is_known_is_foreseen(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, policy="fifo(mode=fit)") as w:
        first = started(w, samples=3000, workers=1, retries=3)
        w.pass_time(10.0)
        second = w.submit(samples=2000, workers=1)
        assert w.engine.fail(first)  # it is tried again, but the other has taken its place meanwhile
        w.until_state(second, State.RUNNING)
        w.pass_time(8.0)
        assert w.state(first) is State.QUEUED
        eta = w.line(first).eta
        assert eta is not None
        assert eta.low_s is not None
        assert eta.high_s is not None
        assert w.clock.now_s <= eta.low_s < eta.high_s
        w.until_state(first, State.SUCCEEDED)
        assert eta.low_s <= (w.row(first).ended_s or 0.0) <= eta.high_s


def test_why_the_end_of_a_waiting_job_is_not_known_is_told(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, policy="fifo(mode=fit)") as w:
        trained = put_aside(w)
        fixed = started(w, kind="command", samples=100_000)
        w.service.resume(ANN, trained)
        new, waiting = w.submit(), w.submit(kind="command")
        w.pass_time(1.0)
        assert (w.line(trained).eta or Eta()).basis.startswith(f"unknown: it may have to wait for {fixed}")
        assert "has not trained yet" in (w.line(new).eta or Eta()).basis
        assert "a command does not say" in (w.line(waiting).eta or Eta()).basis


def test_looking_ahead_is_bounded_however_many_wait(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1) as w:
        started(w, kind="command", samples=100_000)
        jobs = [w.submit() for _ in range(230)]
        w.round()
        assert "too many jobs wait before it" in (w.line(jobs[-1]).eta or Eta()).basis


def test_what_one_job_reported_breaks_the_list_of_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as w:
        jobs = [started(w, samples=100_000, workers=2), w.submit(workers=4), w.submit(workers=4)]
        w.pass_time(3.0)
        broken = {id(w.live(job).learned) for job in jobs[:2]}
        whole = JobMeasurements.remaining.fget, JobMeasurements.fraction.fget  # type: ignore[attr-defined]

        def breaking(read: Any) -> property:
            def found(learned: JobMeasurements) -> Any:
                if id(learned) in broken:
                    raise OverflowError("cannot convert float infinity to integer")
                return read(learned)

            return property(found)

        monkeypatch.setattr(JobMeasurements, "remaining", breaking(whole[0]))
        monkeypatch.setattr(JobMeasurements, "fraction", breaking(whole[1]))
        w.service.ends.forget()
        lines = {line.id: line for line in w.service.jobs("active")}
        assert list(lines) == jobs
        assert (lines[jobs[1]].eta or Eta()).basis == "unknown: what it reported makes no sense"
        assert "has not trained yet" in (lines[jobs[2]].eta or Eta()).basis
        assert w.service.why(jobs[2]).ahead
