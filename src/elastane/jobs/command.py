"""A command is a list of words.  No shell ever sees it, so what only a shell understands is refused early."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from elastane.jobs.fields import Text
from elastane.jobs.problems import expected

_WORDS = "a command such as 'python train.py' or a list of its words"
_SHELL = "one command without shell syntax; for a shell write ['bash', '-c', '…']"
_OPERATORS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1", "&>"})
_INTERPRETERS = re.compile(r"(python|torchrun|bash|sh|accelerate|deepspeed|uv|env|srun|mpirun)[\d.]*")
_SCRIPT = re.compile(r".*\.(py|sh|ipynb)")


def split_words(written: object) -> object:
    """Words of a command given as text; lists pass unchanged to be checked word by word."""
    if isinstance(written, str):
        return _split(written)
    if isinstance(written, list | tuple):
        return tuple(written)
    raise expected(_WORDS)


def _split(line: str) -> tuple[str, ...]:
    # shlex would glue the line break of a continued line to the next word.
    joined = line.replace("\\\n", " ").strip()
    if "\n" in joined:
        raise expected(_SHELL)
    try:
        words = shlex.split(joined)
    except ValueError as error:
        raise expected(f"closed quotes ({str(error).lower()})") from None
    if _OPERATORS.intersection(words):
        raise expected(_SHELL)
    return tuple(words)


def name_of(command: Sequence[str]) -> str:
    """Name a job whose owner gave no name: after its script, else its program.

    >>> name_of(["python", "nets/train.py", "--lr", "0.1"])
    'train'
    """
    script = next((word for word in command if _SCRIPT.fullmatch(word)), None)
    module = next((after for word, after in pairwise(command) if word == "-m"), None)
    program = next((word for word in command if not _INTERPRETERS.fullmatch(PurePosixPath(word).name)), "job")
    stem = PurePosixPath(script).stem if script else PurePosixPath(module or program).name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("._-")[:100] or "job"


def _named_program(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or not words[0].strip():
        raise expected(_WORDS)
    return words


Command = Annotated[
    tuple[Text, ...], BeforeValidator(split_words), AfterValidator(_named_program), Field(max_length=10_000)
]
"""The words of a command; never handed to a shell."""
