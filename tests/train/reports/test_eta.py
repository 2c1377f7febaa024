"""The time left: right for a steady run, silent without data, and quick to forget what no longer holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.reports.eta import LEAST_S, Eta
from elastane.train.reports.events import Event, Resized, Stepped


def at(time_s: float, fraction: float | None) -> Stepped:
    return Stepped(time_s, step=1, epoch=1, workers=1, batch=1, steps=1, step_s=1.0, fraction=fraction)


def eta_after(*events: Event) -> float | None:
    eta = Eta()
    for event in events:
        eta.observe(event)
    return eta.remaining_s


def test_a_steady_run_takes_as_long_as_its_rate_says() -> None:
    assert eta_after(*(at(t, t / 100) for t in range(21))) == pytest.approx(80.0)


def test_nothing_is_said_before_there_is_enough_data() -> None:
    assert eta_after() is None
    assert eta_after(at(0, 0.0), at(LEAST_S - 0.1, 0.1)) is None
    assert eta_after(at(0, 0.0), at(LEAST_S, 0.1)) is not None


def test_nothing_is_said_about_a_run_of_unknown_length_or_one_that_stands_still() -> None:
    assert eta_after(*(at(t, None) for t in range(20))) is None
    assert eta_after(*(at(t, 0.5) for t in range(20))) is None


def test_a_resize_makes_older_rates_worthless() -> None:
    slow = [at(t, t / 1000) for t in range(20)]
    resize = Resized(20.0, 2, "grow", 1, 8, 100, 0.1)
    fast = [at(20 + t, 0.02 + t / 100) for t in range(6)]
    assert eta_after(*slow, resize, *fast[:2]) is None
    assert eta_after(*slow, resize, *fast) == pytest.approx((1 - 0.07) * 100)
    assert eta_after(*slow, *fast) != pytest.approx((1 - 0.07) * 100)


def test_work_that_was_lost_is_not_a_negative_rate() -> None:
    assert eta_after(*(at(t, t / 20) for t in range(10)), at(10, 0.1)) is None
    assert eta_after(*(at(t, t / 20) for t in range(10)), at(10, 0.1), at(14, 0.3)) == pytest.approx(14.0)


def test_only_the_last_half_minute_counts() -> None:
    slow = [at(t, t / 10_000) for t in range(100)]
    fast = [at(100 + t, 0.01 + t / 100) for t in range(40)]
    assert eta_after(*slow, *fast) == pytest.approx(60.0, abs=1.0)


def test_steps_longer_than_the_window_still_give_an_answer() -> None:
    assert eta_after(at(0, 0.0), at(100, 0.1), at(200, 0.2)) == pytest.approx(800.0)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1)), max_size=30))
def test_the_answer_is_never_negative(points: list[tuple[float, float]]) -> None:
    remaining_s = eta_after(*(replace(at(0, 0), at_s=t, fraction=f) for t, f in points))
    assert remaining_s is None or remaining_s >= 0.0
