"""A spec is filled with the interpreter and the variables that its command would have here, now."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from elastane import __version__
from elastane.client.job_environment import take_along
from elastane.jobs import parse_spec

HERE = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": "/code", "FOO": "1"}
OWN = str(Path(sys.executable).parent / "python")


def test_the_interpreter_and_the_variables_are_filled_in(tmp_path: Path) -> None:
    taken = take_along({"command": "python train.py"}, tmp_path, ["FOO"], HERE)
    assert taken.warnings == ()
    assert taken.values["exported"] == HERE
    assert taken.values["python"] == {"path": OWN, "elastane": __version__, "torch": True}
    spec = parse_spec(taken.values)
    assert spec.variables == HERE


def test_what_the_owner_wrote_wins(tmp_path: Path) -> None:
    values = {"command": "python train.py", "env": {"PYTHONPATH": "/mine"}, "exported": {"FOO": "2"}}
    taken = take_along({**values, "python": OWN}, tmp_path, ["FOO"], {**HERE, "PATH": "/nowhere"})
    assert parse_spec(taken.values).variables == {"PATH": "/nowhere", "PYTHONPATH": "/mine", "FOO": "2"}
    assert taken.values["python"]["path"] == OWN


def test_none_leaves_everything_to_the_service(tmp_path: Path) -> None:
    values = {"command": "python train.py"}
    assert take_along(values, tmp_path, ["NONE"], HERE).values == values


def test_a_program_has_no_interpreter(tmp_path: Path) -> None:
    assert "python" not in take_along({"command": "bash train.sh"}, tmp_path, (), HERE).values
    assert "python" not in take_along({"command": "python train.py"}, tmp_path, (), {"PATH": "/nowhere"}).values


def test_one_that_cannot_be_asked_is_a_doubt_and_no_error(tmp_path: Path) -> None:
    odd = tmp_path / "python"
    odd.write_text("#!/bin/sh\nexit 1\n")
    odd.chmod(0o755)
    taken = take_along({"command": f"{odd} train.py"}, tmp_path, (), dict(os.environ))
    assert taken.values["python"] == {"path": str(odd), "elastane": None, "torch": None}
    assert f"{odd} could not be asked what it has" in taken.warnings[-1]


def test_a_secret_that_is_written_down_on_purpose_is_warned_about(tmp_path: Path) -> None:
    values = {"command": "bash train.sh", "env": {"HF_TOKEN": "x"}}
    [warning] = take_along(values, tmp_path, (), HERE).warnings
    assert "HF_TOKEN will be stored with the job" in warning
