"""What of the past is repeated is said once, and a home without a system is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastane.cli.main import app
from elastane.errors import ElastaneError


@pytest.mark.parametrize("words", [("3", "--all"), ("3", "--sim"), ("--all", "--sim")])
def test_two_answers_to_what_is_repeated_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["replay", *words, "--home", str(tmp_path)])
    assert isinstance(result.exception, ElastaneError)
    assert "keep one of them" in str(result.exception)


@pytest.mark.parametrize("words", [("replay",), ("history", "export", "--out", "x.json")])
def test_a_home_without_a_system_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words, "--home", str(tmp_path)])
    told = f"there is no live system in {tmp_path}"
    assert told in str(result.exception) or told in result.output
