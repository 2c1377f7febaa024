"""A launch as a file says all that the launch did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastane.engines.contract import Attempt, Code, Launch, Package, Shared
from elastane.engines.local.launch_file import launch_from_json, launch_to_json


@pytest.mark.parametrize("code", [Shared(), Shared("/data"), Package("a" * 64, "sub", "/home/ann/it")])
def test_a_launch_comes_back_as_it_was_written_down(code: Code, tmp_path: Path) -> None:
    launch = Launch(
        Attempt("j1", 2),
        "digits",
        ("python", "train.py"),
        "/data",
        tmp_path / "attempt",
        tmp_path / "run",
        environment={"A": "1"},
        python="/venv/bin/python",
        code=code,
    )
    written = json.loads(json.dumps(launch_to_json(launch, {"n0": 2})))
    assert launch_from_json(written) == (launch, {"n0": 2})


def test_a_launch_of_an_earlier_version_is_shared(tmp_path: Path) -> None:
    launch = Launch(Attempt("j1", 1), "x", ("true",), "/", tmp_path / "attempt", tmp_path / "run")
    written = {key: value for key, value in launch_to_json(launch, {}).items() if key != "code"}
    assert launch_from_json(written)[0].code == Shared()
