"""Help is for people: no brackets within brackets, whatever the verb."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from elastane.cli.main import app


def verbs(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    for name, each in getattr(command, "commands", {}).items():
        yield from verbs(each, *words, name)


@pytest.mark.parametrize("words", list(verbs(typer.main.get_command(app))), ids=" ".join)
def test_help_shows_no_brackets_within_brackets(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    for strange in ("[[", "]]"):
        assert strange not in shown.output


@pytest.mark.parametrize("words", list(verbs(typer.main.get_command(app))), ids=" ".join)
def test_help_shows_no_types_of_python(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"]).output
    found = re.findall(r"<[a-z][^>\n]*>|list\[|\{[^}\n]*\}|…\.\.\.", shown)
    assert found == []


def test_usage_names_arguments_as_their_list_does() -> None:
    shown = CliRunner().invoke(app, ["cancel", "--help"]).output
    assert "Usage: elastane cancel [OPTIONS] JOB…\n" in shown.replace("Usage: root", "Usage: elastane")
    assert "  JOB…  Ids of jobs." in shown
    assert "--nodes NUMBER" in CliRunner().invoke(app, ["up", "--help"]).output
