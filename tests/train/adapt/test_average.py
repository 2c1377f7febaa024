"""A moving average without a start-up bias."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.adapt.average import MovingAverage
from elastane.train.errors import TrainError

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


@given(values)
def test_it_lies_between_the_values_from_the_first_on(drawn: list[float]) -> None:
    average = MovingAverage(0.95)
    for count, value in enumerate(drawn, 1):
        average = average.add(value)
        found = average.value
        assert found is not None
        slack = 1e-9 * max(1.0, *(abs(x) for x in drawn))
        assert min(drawn[:count]) - slack <= found <= max(drawn[:count]) + slack


def test_it_forgets_at_the_given_pace() -> None:
    average = MovingAverage(0.95)
    for _ in range(500):
        average = average.add(1.0)
    assert average.add(0.0).value == pytest.approx(0.95)


def test_nothing_is_known_before_the_first_value_and_bad_ones_do_not_count() -> None:
    assert MovingAverage(0.9).value is None
    assert MovingAverage(0.9).add(math.nan).add(math.inf).value is None


@given(values)
def test_it_survives_json(drawn: list[float]) -> None:
    average = MovingAverage(0.9)
    for value in drawn:
        average = average.add(value)
    assert MovingAverage(0.9).restored(json.loads(json.dumps(average.to_dict()))) == average


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(TrainError, match="moving average"):
        MovingAverage(0.9).restored({"total": 1.0})
