"""How much work is left, from how much others had."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.models.estimate import Provenance
from elastane.models.history.work import WorkPrior

totals = st.lists(st.floats(1.0, 1e9), min_size=1, max_size=60)


def prior(*values: float) -> WorkPrior:
    return WorkPrior.of(values, [1.0] * len(values))


def test_equal_neighbours_leave_little_doubt_and_one_leaves_much() -> None:
    one, many = prior(100.0).total(), prior(*[100.0] * 50).total()
    assert one.mean == pytest.approx(100.0)
    assert many.mean == pytest.approx(100.0)
    assert one.std > 40.0
    assert many.std < 10.0
    assert (many.count, many.source) == (50, Provenance.HISTORY)


def test_a_job_that_outran_the_short_ones_is_one_of_the_long() -> None:
    known = prior(*[100.0] * 20, *[10_000.0] * 20)
    assert 4000 < known.remaining(0.0).mean < 6000
    assert known.remaining(1000.0).mean == pytest.approx(9000.0, rel=0.1)
    assert known.remaining(1000.0).std < known.remaining(0.0).std


def test_a_job_that_outran_everything_goes_on_for_a_while() -> None:
    left = prior(*[100.0] * 20).remaining(1e6)
    assert 0.0 < left.mean < 1e6
    assert left.std >= left.mean


@given(totals, st.floats(0.0, 1e10))
def test_what_is_left_is_a_finite_number_from_zero_up(values: list[float], done: float) -> None:
    left = prior(*values).remaining(done)
    assert math.isfinite(left.mean)
    assert left.mean >= 0.0
    assert math.isfinite(left.std)
    assert left.std >= 0.0


@given(totals)
def test_the_mean_of_the_whole_lies_between_the_neighbours(values: list[float]) -> None:
    total = prior(*values).total()
    assert 0.5 * min(values) <= total.mean <= 1.01 * max(values)


@given(totals, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_whoever_has_done_more_will_have_done_more_in_the_end(values: list[float], a: float, b: float) -> None:
    known, most = prior(*values), max(values)
    low, high = sorted((a * most, b * most))
    assert known.remaining(low).mean + low <= (known.remaining(high).mean + high) * (1.0 + 1e-6)
