"""What a toy gets wrong about the time left, case by case; the numbers are those of the specification (17 to 24)."""

from __future__ import annotations

import csv
import json
import math
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.models.convergence import Verdict
from elastane.predict.eta import ETA, Doing, EarlyStop, EtaEngine, Goal, Plan, Span
from elastane.predict.eta.log_session import LogWatch
from elastane.predict.eta.logs import follow, records
from elastane.predict.eta.stopping import forecast_stop
from elastane.predict.interval import Interval, Unknown
from predict.eta.driving import Run, descent

Rows = list[dict[str, Any]]


def test_17_a_resumed_run_is_judged_by_this_session_alone() -> None:
    eta = ETA(Goal(1000.0))
    assert isinstance(eta.remaining(), Unknown)
    for i in range(10):
        eta.update("train", 901 + i, 6.0 * i, 6.0 * (i + 1))
        if i == 0:
            assert isinstance(eta.remaining(), Unknown)
    left = eta.remaining()
    assert isinstance(left, Interval)
    assert left.middle == pytest.approx(540.0)


def test_18_a_validation_that_takes_a_quarter_of_the_time_is_expected_before_the_first() -> None:
    # 27 % of the time: 500 steps of a second, then 185 s; its prior is 5 % off.
    run = Run(Goal(10_000.0, validate_every=500.0, validation_s=176.0))
    run.steps(490, 1.0)
    assert run.left.middle == pytest.approx(9510.0 + 20 * 185.0, rel=0.1)


def stepping(count: int = 400) -> Rows:
    """Ten steps a second of 10,000, and a line each second."""
    return [{"step": 10 * i, "timestamp": 5000.0 + i, "max_steps": 10_000} for i in range(1, count + 1)]


def asleep(rows: Rows) -> Rows:
    return [
        {**row, "timestamp": row["timestamp"] + (10_800.0 if i > 250 else 0.0)} for i, row in enumerate(rows)
    ]


def clock_back(rows: Rows) -> Rows:
    return [{**row, "timestamp": row["timestamp"] - (3600.0 if i > 250 else 0.0)} for i, row in enumerate(rows)]


def clock_forth(rows: Rows) -> Rows:
    return [{**row, "timestamp": row["timestamp"] + (3600.0 if i > 250 else 0.0)} for i, row in enumerate(rows)]


def doubled(rows: Rows) -> Rows:
    return [each for row in rows for each in (row, row)]


def disordered(rows: Rows) -> Rows:
    rows, draw = list(rows), random.Random(1)
    for _ in range(40):
        place = draw.randrange(2, len(rows) - 12)
        rows.insert(place + draw.randrange(1, 5), rows.pop(place))
    return rows


def two_ranks(rows: Rows) -> Rows:
    return [each for row in rows for each in (row, {**row, "timestamp": row["timestamp"] + 0.02})]


def a_rank_that_lags(rows: Rows) -> Rows:
    late = [{**row, "timestamp": row["timestamp"] + 1.02} for row in rows]
    return [each for pair in zip(rows[1:], late[:-1], strict=True) for each in pair]


@pytest.mark.parametrize(
    "disturbed", [asleep, clock_back, clock_forth, doubled, disordered, two_ranks, a_rank_that_lags]
)
def test_19_what_happens_to_clocks_and_lines_changes_nothing(
    tmp_path: Path, disturbed: Callable[[Rows], Rows]
) -> None:
    def left(rows: Rows) -> float:
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 99999, "timest')
        watch = LogWatch()
        for record in records(path):
            watch.observe(record)
        found = watch.remaining()
        assert isinstance(found, Interval)
        return found.middle

    assert left(disturbed(stepping())) == pytest.approx(left(stepping()), rel=0.02)


@pytest.mark.parametrize("renamed", [True, False])
def test_19_a_log_that_is_rotated_changes_nothing(tmp_path: Path, renamed: bool) -> None:
    path, rows, looks = tmp_path / "log.jsonl", stepping(), 0
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:250]))

    def wait() -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            if renamed:
                path.rename(tmp_path / "log.jsonl.1")
            path.write_text("".join(json.dumps(row) + "\n" for row in rows[250:]))
        return looks < 2

    watch = LogWatch()
    for record in follow(path, wait, lambda: 0.0):
        if record is not None:
            watch.observe(record)
    found = watch.remaining()
    assert isinstance(found, Interval)
    assert found.middle == pytest.approx(600.0, rel=0.02)


def test_20_batches_of_different_length_count_by_their_tokens() -> None:
    run, draw = Run(Goal(500_000.0)), random.Random(1)
    for _ in range(300):
        tokens = draw.choice((100.0, 500.0, 2000.0))
        run.go(Doing.TRAIN, tokens * 0.02, tokens)
    assert run.left.middle == pytest.approx((500_000 - run.engine.done) * 0.02, rel=1e-6)


@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        (Plan(samples=1000, epochs=3, batch=64), 3 * 16),
        (Plan(samples=1000, epochs=3, batch=64, drop_last=True), 3 * 15),
        (Plan(samples=1000, epochs=3, batch=64, accumulation=4), 3 * 4),
        (Plan(samples=1000, epochs=3, batch=16, workers=4), 3 * 16),
        (Plan(samples=1001, epochs=3, batch=16, workers=4), 3 * 16),
        (Plan(samples=1001, epochs=3, batch=25, workers=4, drop_last=True), 3 * 10),
        (Plan(samples=1000, epochs=0.5, batch=100), 5),
    ],
)
def test_20_steps_are_counted_as_loaders_and_samplers_count(plan: Plan, steps: int) -> None:
    assert plan.goal.total == steps


def test_20_a_last_batch_that_is_smaller_does_not_change_the_rate() -> None:
    run = Run(Goal(10 * 1000.0))
    for _ in range(5):
        for samples in (300.0, 300.0, 300.0, 100.0):
            run.go(Doing.TRAIN, samples * 0.01, samples)
    assert run.left.middle == pytest.approx(50.0)


@pytest.mark.parametrize(("batch", "workers"), [(50, 1), (25, 2), (200, 1)])
def test_20_another_batch_or_world_size_re_bases_the_plan(batch: int, workers: int) -> None:
    eta = ETA(Plan(samples=10_000, epochs=10, batch=100))
    for step in range(1, 501):
        eta.update("train", step, float(step), step + 1.0)
    eta.rebase(batch=batch, workers=workers)
    assert isinstance(eta.remaining(), Unknown)
    for step in range(501, 521):
        eta.update("train", step, 3.0 * step, 3.0 * step + 3.0)
    left = eta.remaining()
    assert isinstance(left, Interval)
    # Half of the data is left, in steps of another size that take three seconds.
    assert left.middle == pytest.approx((50_000 / (batch * workers) - 20) * 3.0)


def epoch(run: Run, slow: float, draw: random.Random) -> None:
    for _ in range(100):
        run.go(Doing.TRAIN, slow * draw.lognormvariate(0.0, 0.05), 1.0)
    run.go(Doing.VALIDATION, 10.0 * slow)


@pytest.mark.parametrize("before", [3, 10])
def test_21_contention_widens_the_interval_and_is_over_an_epoch_after_it_ended(before: int) -> None:
    run, draw = Run(Goal(4000.0)), random.Random(5)
    for _ in range(before):
        epoch(run, 1.0, draw)
    for _ in range(5):
        epoch(run, 2.0, draw)
        steps = 4000.0 - run.engine.done
        assert run.left.low <= steps * 1.1
        assert run.left.high >= steps * 2.2
    epoch(run, 1.0, draw)
    assert run.left.middle == pytest.approx((4000.0 - run.engine.done) * 1.1, rel=0.1)


TARGET = EarlyStop(target=0.05)
BAD: dict[str, list[float]] = {
    "not a number": [1.0, 0.8, 0.6, math.nan, math.nan, math.nan],
    "infinite": [1.0, 0.8, 0.7, 0.6, 0.55, math.inf],
    "diverging": [1.0 + 0.1 * i * i for i in range(20)],
    "flat": [0.7] * 20,
    "oscillating": [0.7 + 0.3 * (-1) ** i for i in range(20)],
    "slowly oscillating": [0.7 + 0.3 * math.sin(i) for i in range(30)],
    "falling and rising": [*(1.0 - 0.05 * i for i in range(12)), *(0.45 + 0.05 * i for i in range(8))],
}


@pytest.mark.parametrize("curve", BAD.values(), ids=BAD.keys())
def test_22_a_curve_that_says_nothing_does_not_shorten_the_time_left(curve: list[float]) -> None:
    stopping, plain = (Run(Goal(100.0, validate_every=1.0, stop=rule)) for rule in (TARGET, None))
    for value in curve:
        for run in (stopping, plain):
            run.steps(1, 60.0)
        stopping.engine.measured(value)
        if len(curve) - len(stopping.engine.values) < 2 and stopping.engine.done > 1:
            assert stopping.left.middle >= plain.left.low
    stop = stopping.engine.stop
    assert stop is not None
    assert stop.verdict in (Verdict.NOT_CONVERGING, Verdict.CANNOT_TELL)
    assert stopping.left == plain.left


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=25),
    st.integers(0, 40),
    st.sampled_from([TARGET, EarlyStop(patience=3), EarlyStop(target=1.0, patience=2, rising=True)]),
)
@settings(max_examples=60, deadline=None)
def test_22_no_curve_leads_beyond_the_budget(values: list[float], more: int, rule: EarlyStop) -> None:
    ends = forecast_stop(rule, values, len(values) + more).ends
    assert len(values) <= ends.low <= ends.high <= len(values) + more


@pytest.mark.parametrize("seed", range(3))
def test_22_a_run_that_may_stop_never_shows_more_than_its_budget(seed: int) -> None:
    stopping, plain = (Run(Goal(80.0, validate_every=1.0, stop=rule)) for rule in (TARGET, None))
    for value in descent(seed)[:79]:
        for run in (stopping, plain):
            run.steps(1, 60.0)
        stopping.engine.measured(value)
        if stopping.engine.done % 13 == 2:
            assert stopping.left.high <= plain.left.high
            assert stopping.left.middle <= plain.left.middle


def test_22_made_up_curves_end_within_the_interval() -> None:
    covered = []
    for seed in range(20):
        curve = descent(seed)
        end = int(np.argmin(curve[: random.Random(seed).randrange(50, 80)])) + 1
        for seen in (end * 2 // 5, end * 4 // 5):
            covered.append(forecast_stop(EarlyStop(curve[end - 1]), curve[:seen], 80).ends.covers(end))
    assert sum(covered) >= 0.8 * len(covered)


PROFILES = Path(os.environ.get("ELASTANE_SHARED", "../shared"), "data", "pollux", "profiles")


@pytest.mark.skipif(not PROFILES.exists(), reason="the measured curves are not shipped")
def test_22_the_measured_curves_end_within_the_interval() -> None:
    covered = []
    for name, rising in {"cifar10": True, "deepspeech2": False, "imagenet": True, "yolov3": False}.items():
        for path in sorted((PROFILES / name).glob("validation-*.csv")):
            with path.open(encoding="utf-8") as file:
                values = [float(row["metric"]) for row in csv.DictReader(file)]
            early = values[: int(0.9 * len(values))]
            end = early.index(max(early) if rising else min(early)) + 1
            rule = EarlyStop(values[end - 1], rising=rising)
            covered.append(forecast_stop(rule, values[: end // 2], len(values)).ends.covers(end))
    assert len(covered) == 26
    assert sum(covered) >= 0.8 * 26


def test_23_no_step_one_step_and_a_step_that_took_no_time() -> None:
    run = Run(Goal(100.0))
    assert isinstance(run.engine.remaining(), Unknown)
    run.steps(1, 2.0)
    assert isinstance(run.engine.remaining(), Unknown)
    run.steps(1, 0.0)
    run.steps(8, 2.0)
    assert run.left.middle == pytest.approx(180.0)


def test_23_without_an_end_there_is_a_rate_and_no_total() -> None:
    run = Run(Goal(None))
    run.steps(50, 1.0)
    assert str(run.engine.remaining()).startswith("unknown, because")
    rate = run.engine.rate
    assert isinstance(rate, Interval)
    assert rate.middle == pytest.approx(1.0)


@pytest.mark.parametrize("outcome", ["finished", "failed"])
def test_23_what_is_over_has_nothing_left(outcome: str) -> None:
    run = Run(Goal(100.0))
    run.steps(5, 1.0)
    run.engine.end(outcome)
    assert run.left == Interval.exactly(0.0)


steps_of_time = st.floats(0.0, 1e5) | st.sampled_from([0.0, 1e-9])
events = st.lists(
    st.tuples(st.sampled_from(Doing), steps_of_time, steps_of_time, st.floats(0.0, 1e6)), max_size=60
)


@given(events, st.floats(1e-3, 1e9))
def test_24_of_a_monotone_clock_every_second_is_counted_once(
    happened: list[tuple[Doing, float, float, float]], total: float
) -> None:
    engine, now, first = EtaEngine(Goal(total)), 0.0, None
    for doing, gap, seconds, work in happened:
        now += gap
        first = now if first is None else first
        engine.observe(Span(doing, now, now + seconds, work))
        now += seconds
        left = engine.remaining()
        if isinstance(left, Interval):
            assert 0.0 <= left.low <= left.middle <= left.high < math.inf
    assert all(seconds >= 0.0 for seconds in engine.elapsed_s.values())
    assert sum(engine.elapsed_s.values()) == pytest.approx(now - (first or 0.0), rel=1e-9, abs=1e-6)
