"""Time left: this session's rates, the goal's counts, and no answer where there is none."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.predict.eta import Doing, EtaEngine, Goal, Span
from elastane.predict.interval import Interval, Unknown
from predict.eta.driving import Run


def test_after_a_resume_only_this_session_counts() -> None:
    run = Run(Goal(1000.0), done=900.0)
    assert isinstance(run.engine.remaining(), Unknown)
    run.steps(1, 6.0)
    assert isinstance(run.engine.remaining(), Unknown)
    run.steps(9, 6.0)
    assert run.left.middle == pytest.approx(540.0)


def test_a_validation_not_yet_seen_is_expected_from_its_prior() -> None:
    run = Run(Goal(10_000.0, validate_every=500.0, validation_s=180.0))
    run.steps(400, 1.0)
    truth = 9600 * 1.0 + 20 * 185.0
    assert run.left.middle == pytest.approx(truth, rel=0.1)


def test_validations_and_checkpoints_are_timed_apart_and_counted_from_the_goal() -> None:
    run = Run(Goal(1000.0))
    for _ in range(2):
        run.steps(100, 1.0)
        run.go(Doing.VALIDATION, 30.0)
        run.go(Doing.CHECKPOINT, 5.0)
    assert run.left.middle == pytest.approx(800 + 8 * 30.0 + 8 * 5.0)
    assert run.engine.elapsed_s[Doing.VALIDATION] == 60.0


def test_a_night_of_sleep_is_a_pause_and_not_a_slow_step() -> None:
    run = Run(Goal(1000.0))
    run.steps(100, 1.0)
    before = run.left.middle
    run.go(Doing.TRAIN, 3 * 3600.0, 1.0)
    assert run.left.middle == pytest.approx(before - 1.0, rel=0.02)
    assert run.engine.elapsed_s[Doing.PAUSE] == pytest.approx(3 * 3600.0 - 1.0)


def test_slow_first_steps_are_not_taken_for_the_rate() -> None:
    run = Run(Goal(1000.0))
    run.go(Doing.TRAIN, 60.0, 1.0)
    run.steps(3, 5.0)
    run.steps(30, 1.0)
    assert run.left.middle == pytest.approx(966.0, rel=0.02)


def test_stalls_that_come_back_are_counted() -> None:
    run = Run(Goal(10_000.0))
    for _ in range(20):
        run.steps(49, 1.0)
        run.go(Doing.TRAIN, 9.0, 1.0)
    # 8 s more than usual in 50 steps.
    assert run.left.middle == pytest.approx(9000 * 1.16, rel=0.02)
    assert run.engine.elapsed_s[Doing.STALL] == pytest.approx(160.0)


def test_contention_widens_the_interval_to_both_regimes_and_is_forgotten() -> None:
    run = Run(Goal(3000.0))
    run.steps(1000, 1.0)
    run.steps(300, 2.0)
    left = run.left
    assert left.low <= 1700 * 1.0
    assert left.high >= 1700 * 2.0
    run.steps(900, 1.0)
    assert run.left.middle == pytest.approx(800.0, rel=0.05)


def test_another_batch_or_number_of_workers_begins_a_new_rate() -> None:
    run = Run(Goal(1000.0))
    run.steps(100, 1.0)
    run.engine.rebase()
    assert isinstance(run.engine.remaining(), Unknown)
    run.steps(10, 4.0)
    assert run.left.middle == pytest.approx(890 * 4.0)


def test_steps_of_different_size_are_counted_by_their_work() -> None:
    run, draw = Run(Goal(100_000.0)), random.Random(1)
    for _ in range(300):
        tokens = draw.choice((10.0, 50.0, 200.0))
        run.go(Doing.TRAIN, tokens * 0.02, tokens)
    assert run.left.middle == pytest.approx((100_000 - run.engine.done) * 0.02, rel=1e-6)


def test_the_end_unknown_means_no_total_but_a_rate() -> None:
    run = Run(Goal(None))
    run.steps(50, 1.0)
    left = run.engine.remaining()
    assert isinstance(left, Unknown)
    assert str(left).startswith("unknown, because nobody said")
    assert isinstance(run.engine.rate, Interval)


def test_a_run_that_may_stop_early_is_bounded_by_its_budget() -> None:
    plain, early = Run(Goal(1000.0)), Run(Goal(1000.0, may_stop_early=True))
    for run in (plain, early):
        run.steps(100, 1.0)
    assert early.left.low == 0.0
    assert early.left.high <= plain.left.high


@pytest.mark.parametrize("outcome", ["finished", "failed", "stopped"])
def test_a_run_that_is_over_has_nothing_left(outcome: str) -> None:
    run = Run(Goal(100.0))
    run.steps(5, 1.0)
    run.engine.end(outcome)
    assert run.left == Interval.exactly(0.0)


def test_more_steps_than_planned_leave_nothing() -> None:
    run = Run(Goal(10.0))
    run.steps(12, 1.0)
    assert run.left.high == 0.0


times = st.floats(allow_nan=True, allow_infinity=True)
spans = st.builds(
    Span, st.sampled_from(Doing), times, times, st.floats(-1e6, 1e6) | st.just(math.nan), st.integers(0, 1000)
)


@given(st.lists(spans, max_size=40), st.floats(1e-3, 1e9))
def test_whatever_happens_the_answer_is_finite_and_not_negative(events: list[Span], total: float) -> None:
    engine = EtaEngine(Goal(total))
    for event in events:
        engine.observe(event)
    left = engine.remaining()
    if isinstance(left, Interval):
        assert 0.0 <= left.low <= left.middle <= left.high < math.inf


@given(st.lists(st.tuples(st.sampled_from(Doing), st.floats(0, 1e5)), max_size=60))
def test_the_parts_of_a_session_add_up_to_it(parts: list[tuple[Doing, float]]) -> None:
    run = Run(Goal(1e9))
    for doing, seconds in parts:
        run.go(doing, seconds, 1.0)
    assert sum(run.engine.elapsed_s.values()) == pytest.approx(run.now - 1000.0, abs=1e-3)


def test_a_goal_without_sense_is_refused() -> None:
    for wrong in (Goal, lambda total: Goal(10.0, validate_every=total)):
        with pytest.raises(ElastaneError):
            wrong(-1.0)
