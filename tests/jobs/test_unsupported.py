"""What nothing would act upon is refused when a job is submitted; a spec that was stored with it can still be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elastane.jobs import SpecError, dump_json, parse_spec
from elastane.jobs.unsupported import UNSUPPORTED, submitted_spec

SET: dict[str, dict[str, Any]] = {
    "value": {"value": 100},
    "data": {"data": {"zone": "east", "gb": 1}},
    "servers": {"servers": 2},
    "resources.bandwidth": {"resources": {"bandwidth": "10Gbps"}},
    "workers.resources.bandwidth": {"workers": {"min": 1, "resources": {"bandwidth": "10Gbps"}}},
    "batch.per_gpu_min": {"batch": {"size": 64, "per_gpu_min": 2}},
    "batch.per_gpu_max": {"batch": {"size": 64, "per_gpu_max": 32}},
    "batch.accumulation": {"batch": {"size": 64, "accumulation": False}},
    "checkpoint.path": {"checkpoint": {"path": "/saved"}},
    "checkpoint.keep": {"checkpoint": {"keep": 5}},
}


@pytest.mark.parametrize("path", UNSUPPORTED)
def test_it_is_refused_in_one_line_that_names_the_field(path: str) -> None:
    values = {"command": "x", **SET[path]}
    with pytest.raises(SpecError) as caught:
        submitted_spec(values, "job.yaml")
    assert str(caught.value) == f"job.yaml: {path} is not supported yet: {UNSUPPORTED[path]}"
    parse_spec(values)


def test_all_of_it_comes_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        submitted_spec({"command": "x", **SET["value"], **SET["servers"], **SET["batch.per_gpu_max"]})
    assert [problem.path for problem in caught.value.problems] == ["value", "servers", "batch.per_gpu_max"]


def test_a_default_that_is_spelled_out_is_no_wish() -> None:
    plain = submitted_spec({"command": "x", "batch": {"size": 64, "per_gpu_min": 1}, "checkpoint": {"keep": 2}})
    assert submitted_spec(json.loads(dump_json(plain))) == plain


@pytest.mark.parametrize("field", ["env", "exported"])
def test_where_checkpoints_lie_is_said_in_one_place(field: str) -> None:
    with pytest.raises(
        SpecError,
        match=rf"^{field}\.ELASTANE_CHECKPOINTS: .* sets this variable itself, from checkpoints; leave",
    ):
        submitted_spec({"command": "x", field: {"ELASTANE_CHECKPOINTS": "/x"}})


@pytest.mark.parametrize("place", ["relative", "ftp://host/x", "", 7, "memory://x"])
def test_a_place_that_is_none_is_refused_by_its_field(place: object) -> None:
    with pytest.raises(SpecError) as caught:
        submitted_spec({"command": "x", "checkpoints": place})
    (problem,) = caught.value.problems
    assert problem.path == "checkpoints"
    assert problem.text.startswith("checkpoints: ")


def test_a_password_in_a_place_is_refused_and_not_shown() -> None:
    with pytest.raises(SpecError, match=r"^checkpoints: .*a URL without a password") as caught:
        submitted_spec({"command": "x", "checkpoints": "s3://me:pw123@bucket/x"})
    assert "pw123" not in str(caught.value)


@pytest.mark.parametrize("field", ["env", "exported"])
def test_nobody_sets_what_elastane_itself_declares(field: str) -> None:
    with pytest.raises(SpecError, match=rf"^{field}\.ELASTANE_DECLARED: Elastane sets this variable itself"):
        submitted_spec({"command": "x", field: {"ELASTANE_DECLARED": "{}"}})
