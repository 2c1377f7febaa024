"""The guide's table of what a script may do names tests, and those tests exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
GUIDE = TESTS.parents[1] / "docs" / "elastic.md"
NAMED = re.compile(r"`((?:\w+/)*test_\w+\.py)(?:::(test_\w+))?`")


def rows() -> list[str]:
    """The rows of the table, without its head."""
    section = GUIDE.read_text().split("## What your script may do", 1)[1].split("\n## ", 1)[0]
    section = section.split("\n### ", 1)[0]  # what follows is about whole scripts
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_table_is_there() -> None:
    assert len(rows()) >= 25


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_row_names_tests_that_exist(row: str) -> None:
    named = NAMED.findall(row)
    assert named, f"no test is named in: {row}"
    for file, function in named:
        assert (TESTS / file).is_file(), f"there is no tests/train/{file}"
        assert not function or function in functions(TESTS / file), f"tests/train/{file} has no {function}"
