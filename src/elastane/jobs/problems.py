"""``SpecError`` lists what is wrong with a job spec, one line per mistake, in the words of its author."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

from elastane.errors import ElastaneError


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: the path of the field (empty for the whole spec) and a sentence that names it."""

    path: str
    text: str


class SpecError(ElastaneError):
    """A job spec that cannot be used: every mistake found, one per line, behind the name of its file if any."""

    def __init__(self, problems: Sequence[Problem], source: str = "") -> None:
        self.source = source
        self.problems = tuple(problems)
        prefix = f"{source}: " if source else ""
        super().__init__("\n".join(prefix + problem.text for problem in self.problems))


def expected(what: str) -> PydanticCustomError:
    """Make a validator's refusal of one value; ``what`` completes "expected …"."""
    return PydanticCustomError("expected", "{what}", {"what": what})


def conflict(sentence: str) -> PydanticCustomError:
    """Make a validator's refusal of values that contradict each other."""
    return PydanticCustomError("conflict", "{sentence}", {"sentence": sentence})


_REPR = reprlib.Repr()
_REPR.maxlevel = 2
_REPR.maxstring = _REPR.maxother = 80


def shown(value: object) -> str:
    """Shorten a value for a message: it stays on one line, whatever was pasted."""
    try:
        return _REPR.repr(value)
    except ValueError:  # Python declines to print whole numbers of thousands of digits
        return "a number of thousands of digits"
