"""Docstrings say more than the name they stand under: none has three words or fewer.

No module's begins with a question word, in place of a subject.  The rest of the rule (the first sentence has a
subject, a verb and the technical term) is for readers to judge.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "elastane"
TOO_FEW = 3
"""Words with which a docstring exists for the linter alone."""


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
    assert not short, f"say what these are or do, in a sentence: {', '.join(short)}"


NO_SUBJECTS = ("From", "How", "What", "When", "Where", "Which", "Who")
"""Words with which a module's docstring begins a question that it does not ask: there is no subject, or no verb."""

NOT_YET = {"train": 1}
"""How many modules of a room may still begin so.  Numbers only go down; a room without any leaves the table."""


def without_subject(text: str) -> bool:
    """Whether a module's docstring begins with a word that is no subject and no verb."""
    words = (ast.get_docstring(ast.parse(text)) or "").split()
    return bool(words) and words[0] in NO_SUBJECTS


@pytest.mark.parametrize("room", sorted({file.split("/")[0] for file in FILES}))
def test_a_module_says_what_it_is_or_does_with_a_subject_and_a_verb(room: str) -> None:
    found = [
        file
        for file, path in FILES.items()
        if file.split("/")[0] == room and without_subject(path.read_text(encoding="utf-8"))
    ]
    assert len(found) <= NOT_YET.get(room, 0), f"say what these are or do: {', '.join(found)}"


def test_a_question_that_is_none_is_found() -> None:
    assert without_subject('"""How it is done."""')
    assert not without_subject('"""Does it as whoever asks wants it."""')


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
