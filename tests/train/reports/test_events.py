"""Events survive the way through JSON, whatever another version adds, and nothing false is taken for one."""

from __future__ import annotations

import ast
import json
import math
from dataclasses import MISSING, fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import elastane.train.reports as package
from elastane.models.goodput import BatchLimits
from elastane.models.throughput import ThroughputParams
from elastane.train.reports import events as module
from elastane.train.reports.events import (
    Diverged,
    Ended,
    Evaluated,
    Event,
    Fitted,
    Resized,
    Started,
    Stepped,
    Warned,
    WorkerLost,
    from_json,
)
from train.reports.strategies import ANY_EVENT, KINDS

LEAST = {
    "started": Started(1.0, "r", "s.py", "fixed", 2, 64, 3),
    "stepped": Stepped(1.0, step=7, epoch=1, workers=2, batch=64, steps=3, step_s=0.1),
    "resized": Resized(1.0, 2, "grow", 1, 2, 7, 0.1),
    "worker_lost": WorkerLost(1.0, "w1", "signal 9", 7),
    "diverged": Diverged(1.0, 7, ("w1", "w2")),
    "ended": Ended(1.0, "failed", "out of memory", 7, 3.0),
}


def through_json(event: Event) -> Event | None:
    return from_json(json.loads(json.dumps(event.to_json(), allow_nan=False)))


@given(ANY_EVENT)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    back = through_json(event)
    assert type(back) is type(event)
    assert back is not None
    # Compared as JSON, since nan is not equal to itself.
    assert back.to_json() == event.to_json()


def test_every_kind_of_event_has_a_name_of_its_own() -> None:
    assert sorted(module._TYPES.values(), key=str) == sorted(KINDS, key=str)


@pytest.mark.parametrize("name", LEAST)
def test_a_field_of_a_later_version_is_passed_over(name: str) -> None:
    document = {**LEAST[name].to_json(), "colour": [1, {"deep": None}]}
    assert from_json(document) == LEAST[name]


@pytest.mark.parametrize("name", LEAST)
def test_what_is_optional_may_be_missing_and_what_is_not_may_not(name: str) -> None:
    event, document = LEAST[name], LEAST[name].to_json()
    for field in fields(event):
        rest = {key: value for key, value in document.items() if key != field.name}
        if field.default is MISSING and field.default_factory is MISSING:
            with pytest.raises(ValueError, match=field.name):
                from_json(rest)
        else:
            assert from_json(rest) == event


def test_an_event_of_an_unknown_type_is_none() -> None:
    assert from_json({"type": "teleported", "at_s": 1.0}) is None


@pytest.mark.parametrize(
    "document",
    [None, 3, [], "stepped", {}, {"at_s": 1.0}, {"type": 7, "at_s": 1.0}, {"type": ["stepped"], "at_s": 1.0}],
)
def test_what_is_no_event_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="not an event"):
        from_json(document)


@pytest.mark.parametrize(
    ("name", "field", "wrong"),
    [
        ("stepped", "step", "7"),
        ("stepped", "step", 7.5),
        ("stepped", "step", True),
        ("stepped", "step", math.inf),
        ("stepped", "at_s", "soon"),
        ("stepped", "at_s", None),
        ("stepped", "metrics", {"accuracy": "high"}),
        ("stepped", "metrics", [0.5]),
        ("resized", "kind", "teleport"),
        ("resized", "kind", ["grow"]),
        ("resized", "shadow", 1),
        ("diverged", "workers", "w1"),
        ("diverged", "workers", [1]),
        ("worker_lost", "cause", None),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(name: str, field: str, wrong: object) -> None:
    with pytest.raises(ValueError, match=r"not a |not one of"):
        from_json({**LEAST[name].to_json(), field: wrong})


def test_whole_numbers_may_be_written_as_fractions() -> None:
    assert from_json({**LEAST["stepped"].to_json(), "step": 7.0, "at_s": 1}) == LEAST["stepped"]


def test_large_counts_keep_every_digit() -> None:
    event = WorkerLost(1.0, "w", "c", 2**53 + 1)
    assert through_json(event) == event


def test_a_fit_with_impossible_limits_is_no_event() -> None:
    fit = Fitted(1.0, ThroughputParams(*[1.0] * 7), None, BatchLimits(8, 64, 1, 8), 2)
    document = fit.to_json()
    assert through_json(fit) == fit
    document["limits"]["maximum"] = 1
    with pytest.raises(ValueError, match="maximum"):
        from_json(document)
    del document["params"]["gamma"]
    with pytest.raises(ValueError, match="gamma"):
        from_json(document)


def test_the_parameters_of_a_fit_are_named_as_the_model_names_them() -> None:
    fit = Fitted(1.0, ThroughputParams(*map(float, range(7))), 90.0, BatchLimits(8, 64, 1, 8), 2)
    assert fit.to_json()["params"] == dict(zip(ThroughputParams._fields, map(float, range(7)), strict=True))


def test_numbers_of_numpy_are_numbers() -> None:
    event = Evaluated(1.0, 1, 2, {"accuracy": np.float32(0.5), "right": np.int64(3)})
    assert through_json(event) == Evaluated(1.0, 1, 2, {"accuracy": 0.5, "right": 3.0})


def test_a_metric_that_is_no_number_is_a_defect_of_the_caller() -> None:
    with pytest.raises(TypeError, match="object"):
        Evaluated(1.0, 1, 2, {"accuracy": object()}).to_json()  # type: ignore[dict-item]


def test_text_of_any_kind_survives() -> None:
    event = Warned(1.0, "naïve \ud800 \n </script>")
    assert through_json(event) == event


def test_nothing_in_the_package_imports_torch() -> None:
    for file in Path(package.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "torch" for name in names), file
