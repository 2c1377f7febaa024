"""``elastane train`` takes a script; whoever puts an interpreter in front is told what to write."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from elastane.cli.train import app
from elastane.train.errors import TrainError


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("python train.py", "instead of 'python …' write: elastane train train.py …"),
        ("/v/bin/python -m pkg", "write: /v/bin/python -m elastane train -m pkg …"),
        ("torchrun --nproc-per-node=2 train.py", "write: elastane train --workers 2 train.py …"),
    ],
)
def test_a_command_in_front_of_the_script_is_told_what_to_write(words: str, instead: str) -> None:
    result = CliRunner().invoke(app, ["--", *words.split()])
    assert isinstance(result.exception, TrainError)
    assert instead in str(result.exception)


def test_a_script_that_is_not_there_is_said_to_be_missing() -> None:
    assert str(CliRunner().invoke(app, ["nowhere.py"]).exception) == "there is no script nowhere.py"
