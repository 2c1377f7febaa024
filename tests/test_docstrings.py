"""Docstrings say more than the name they stand under: none has three words or fewer.

The rest of the rule (the first sentence has a subject, a verb and the technical term) is for readers to judge.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "elastane"
TOO_FEW = 3
"""Words with which a docstring exists for the linter alone."""

NOT_YET = frozenset[str]()
"""Files with docstrings that are still too short.  The list only shrinks: a file that has none any more leaves it."""

FILES = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}


def documented(node: ast.AST, path: str = "") -> Iterator[tuple[str, str]]:
    """(name, docstring) of a module and of all public classes, functions and methods in it."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text is not None:
            yield path or "the module", text
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not child.name.startswith("_"):
                yield from documented(child, f"{path}.{child.name}".lstrip("."))
        elif not isinstance(child, ast.expr):  # definitions under an if or in a handler
            yield from documented(child, path)


def too_short(text: str) -> list[str]:
    """Names of a file's docstrings that add nothing to the name."""
    return [name for name, words in documented(ast.parse(text)) if len(words.split()) <= TOO_FEW]


@pytest.mark.parametrize("file", FILES)
def test_a_docstring_has_more_than_three_words(file: str) -> None:
    short = too_short(FILES[file].read_text(encoding="utf-8"))
    if file in NOT_YET:
        assert short, f"{file} is done: take it off NOT_YET"
    else:
        assert not short, f"say what these are or do, in a sentence: {', '.join(short)}"


def test_the_list_names_files_that_exist() -> None:
    assert FILES.keys() >= NOT_YET, f"not there: {', '.join(sorted(NOT_YET - FILES.keys()))}"


@pytest.mark.parametrize(
    "text",
    [
        '"""Too short."""',
        'def f():\n    """Which one."""',
        'class C:\n    """Likewise."""',
        'class C:\n    def method(self):\n        """Go\n        there.\n        """',
        'class C:\n    async def method(self):\n        """Wait for it."""',
        'if True:\n    def f():\n        """All."""',
        'try:\n    pass\nexcept ImportError:\n    class C:\n        """Not there."""',
    ],
)
def test_short_docstrings_are_found_wherever_they_stand(text: str) -> None:
    assert too_short(text)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        'def f():\n    """Returns the smaller one."""',
        'def _f():\n    """Private."""',
        'class _C:\n    def f(self):\n        """Private as well."""',
        'def f():\n    return "so short"',
    ],
)
def test_sentences_and_private_names_pass(text: str) -> None:
    assert not too_short(text)
