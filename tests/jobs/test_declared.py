"""What an owner declares about training reaches the job's environment as it was written, and nothing else does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.jobs import parse_spec
from elastane.jobs.declared import VARIABLE, Batches, Declared, Goal, declared_by, declared_from_json


def test_nothing_declared_is_an_empty_object() -> None:
    assert declared_by(parse_spec({"command": "x"})).environment() == {VARIABLE: "{}"}


def test_epochs_target_and_batch_are_carried_as_json() -> None:
    spec = parse_spec(
        {
            "command": "x",
            "epochs": 30,
            "target": {"metric": "accuracy", "value": 0.9},
            "batch": {"size": 64, "max": 1024},
        }
    )
    assert json.loads(declared_by(spec).environment()[VARIABLE]) == {
        "epochs": 30,
        "target": {"metric": "accuracy", "value": 0.9, "direction": "at-least"},
        "batch": {"size": 64, "max": 1024},
    }


@pytest.mark.parametrize(
    ("metric", "written", "direction"),
    [("val_loss", None, "at-most"), ("accuracy", None, "at-least"), ("score", "at-most", "at-most")],
)
def test_a_reader_need_not_know_on_which_side_a_metric_is_good(
    metric: str, written: str | None, direction: str
) -> None:
    spec = parse_spec({"command": "x", "target": {"metric": metric, "value": 1.0, "direction": written}})
    assert declared_by(spec).to_json()["target"]["direction"] == direction


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (64, {"size": 64}),
        ({"size": 64, "fixed": True}, {"size": 64, "max": 64}),
        ({"size": 64, "max": 128}, {"size": 64, "max": 128}),
    ],
)
def test_a_fixed_batch_is_one_that_may_not_grow(batch: object, expected: dict[str, int]) -> None:
    assert declared_by(parse_spec({"command": "x", "batch": batch})).to_json()["batch"] == expected


goals = st.builds(
    Goal, st.text(min_size=1), st.floats(allow_nan=False, allow_infinity=False), st.just("at-most")
)
batches = st.builds(Batches, st.integers(1), st.none() | st.integers(1))


@given(st.builds(Declared, st.none() | st.integers(1), st.none() | goals, st.none() | batches))
def test_it_survives_the_way_through_a_file(declared: Declared) -> None:
    assert declared_from_json(json.loads(json.dumps(declared.to_json()))) == declared
