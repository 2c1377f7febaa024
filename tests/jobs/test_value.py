from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.jobs import Constant, SpecError, Utility, parse_spec

HOUR = 3600.0


def utility(written: object) -> Utility:
    value = parse_spec({"command": "x", "value": written}).value
    assert value is not None
    return value


def test_a_number_is_worth_the_same_at_any_time() -> None:
    assert isinstance(utility(50), Constant)
    assert utility(50).at(0) == utility(50).at(math.inf) == 50


def test_linear_is_full_until_its_time_then_falls_per_hour_to_nothing() -> None:
    value = utility({"shape": "linear", "worth": 100, "until": "6h", "per_hour": 10})
    assert [value.at(hours * HOUR) for hours in (0, 6, 7, 11, 16, 100)] == [100, 100, 90, 50, 0, 0]


def test_step_is_full_up_to_and_including_the_deadline() -> None:
    value = utility({"shape": "step", "worth": 100, "until": "2h", "after": 5})
    assert [value.at(s) for s in (0, 2 * HOUR, 2 * HOUR + 1)] == [100, 100, 5]


def test_sigmoid_is_the_formula_of_oasis() -> None:
    value = utility({"shape": "sigmoid", "worth": 80, "steepness": 0.5, "target": "10h"})
    assert value.at(10 * HOUR) == pytest.approx(40)
    assert value.at(14 * HOUR) == pytest.approx(80 / (1 + math.exp(0.5 * 4)))
    assert value.at(math.inf) == pytest.approx(0)


def test_a_sigmoid_without_steepness_does_not_care_about_time() -> None:
    value = utility({"shape": "sigmoid", "worth": 80, "steepness": 0, "target": "10h"})
    assert value.at(0) == value.at(math.inf) == 40


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("high", "value: got 'high'; expected a number of credits"),
        (-1, "value.worth: got -1; expected 0 or more"),
        (True, "value: got True"),
        ({"worth": 3}, "value.shape is missing; expected one of constant, linear, step, sigmoid"),
        ({"shape": "liner", "worth": 3}, "value.shape: got 'liner'.*did you mean 'linear'"),
        (
            {"shape": "linear", "worth": 3, "perhour": 1},
            "unknown field 'perhour' in value; did you mean 'per_hour'",
        ),
        (
            {"shape": "step", "worth": 3, "until": "1h", "after": 4},
            r"value: after \(4\) may not exceed worth \(3\)",
        ),
        ({"shape": "sigmoid", "worth": 3, "steepness": -1, "target": 1}, "value.steepness: got -1"),
    ],
)
def test_a_wrong_value_is_explained(written: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        utility(written)


_worth = st.floats(0, 1e6)
_seconds = st.floats(0, 1e7)
_utilities = st.one_of(
    st.builds(lambda w: {"shape": "constant", "worth": w}, _worth),
    st.builds(
        lambda w, u, p: {"shape": "linear", "worth": w, "until": u, "per_hour": p}, _worth, _seconds, _worth
    ),
    st.builds(
        lambda w, u, a: {"shape": "step", "worth": w, "until": u, "after": w * a},
        _worth,
        _seconds,
        st.floats(0, 1),
    ),
    st.builds(
        lambda w, s, t: {"shape": "sigmoid", "worth": w, "steepness": s, "target": t},
        _worth,
        st.floats(0, 1e6),
        _seconds,
    ),
).map(utility)


@given(_utilities, st.floats(0), st.floats(0))
def test_worth_is_never_negative_never_above_the_stated_and_never_rises(
    value: Utility, a: float, b: float
) -> None:
    early, late = sorted((a, b))
    assert 0 <= value.at(late) <= value.at(early) <= value.worth
