"""Help is for people: no brackets within brackets, whatever the verb."""

from __future__ import annotations

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
