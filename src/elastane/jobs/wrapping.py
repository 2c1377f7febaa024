"""Finds the Python script that a command runs in the end: behind ``env``, ``uv run``, ``torchrun`` and the like.

Only the words are looked at, nothing is run and no file is read.  What is not understood stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from elastane.jobs.launchers import Launched, read_accelerate, read_torchrun

_PYTHON = re.compile(r"python(3(\.\d+)?)?", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_HARMLESS = frozenset({"-u"})
"""Options of the interpreter that change nothing for us: workers' output is not buffered anyway."""
_DEEPEST = 8
_NOT_PYTHON = "it is not a Python script"
PROJECT_RUNNERS = frozenset({"uv", "poetry"})
"""Programs that run a command in the environment of the project around it."""


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """A Python script (or module), and the word that decides which interpreter runs it.

    Without a ``script`` the command is a program like any other, for the reason that ``problem`` gives.
    """

    launcher: str = ""
    script: str = ""
    module: bool = False
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the command itself sets."""
    workers: tuple[int, int] | None = None
    """Fewest and most workers that the command itself asks for."""
    told: bool = False
    """Tell whether its launcher would tell even a lone process its rank."""
    notes: tuple[str, ...] = ()
    """List what its owner should know."""
    problem: str = _NOT_PYTHON


def unwrap(command: Sequence[str], depth: int = 0) -> Unwrapped:
    """Take a command apart; never fails.

    >>> found = unwrap(["env", "A=1", "torchrun", "--nproc-per-node=2", "train.py", "--lr", "1"])
    >>> found.script, found.workers, dict(found.environment)
    ('train.py', (2, 2), {'A': '1'})
    """
    name = PurePosixPath(command[0]).name if command else ""
    if depth > _DEEPEST:
        return Unwrapped()
    if _PYTHON.fullmatch(name):
        return _python(command)
    if name == "env":
        return _env(command, depth)
    if name in PROJECT_RUNNERS and command[1:2] and command[1] == "run":
        return _project(command, depth)
    if name == "torchrun":
        return _torchrun(command[0], command[1:])
    if name == "accelerate" and command[1:2] and command[1] == "launch":
        return _accelerate(command[0], command[2:])
    return Unwrapped()


def is_python(word: str) -> bool:
    """Tell whether a word names a Python interpreter, with or without its folder."""
    return bool(_PYTHON.fullmatch(PurePosixPath(word).name))


def _python(words: Sequence[str]) -> Unwrapped:
    rest = list(words[1:])
    while rest and rest[0] in _HARMLESS:
        rest = rest[1:]
    if len(rest) >= 2 and rest[0] == "-m":
        if rest[1] == "torch.distributed.run":
            return _torchrun(words[0], rest[2:])
        if rest[1] == "accelerate.commands.launch":
            return _accelerate(words[0], rest[2:])
        return Unwrapped(words[0], rest[1], True, tuple(rest[2:]), problem="")
    if rest and rest[0] and not rest[0].startswith("-"):
        return Unwrapped(words[0], rest[0], arguments=tuple(rest[1:]), problem="")
    return Unwrapped()


def _env(words: Sequence[str], depth: int) -> Unwrapped:
    given: dict[str, str] = {}
    for place, word in enumerate(words[1:], 1):
        found = _ASSIGNMENT.fullmatch(word)
        if found is None:
            if word.startswith("-"):
                return Unwrapped(problem=f"env's {word} is not understood")
            inner = unwrap(words[place:], depth + 1)
            return replace(inner, environment={**given, **inner.environment})
        given[found[1]] = found[2]
    return Unwrapped()


def _project(words: Sequence[str], depth: int) -> Unwrapped:
    runner, rest = PurePosixPath(words[0]).name, words[2:]
    if rest[:1] and rest[0].startswith("-"):
        return Unwrapped(problem=f"{runner} run's {rest[0]} is not understood")
    inner = unwrap(["python", *rest] if rest[:1] and rest[0].endswith(".py") else rest, depth + 1)
    if not inner.script or "/" in inner.launcher:
        return inner
    note = f"{runner} run: the project's .venv is used as it is, without bringing it up to date"
    return replace(inner, launcher=words[0], notes=(*inner.notes, note))


def _torchrun(launcher: str, words: Sequence[str]) -> Unwrapped:
    return _launched(launcher, read_torchrun(words), "torchrun", told=True)


def _accelerate(launcher: str, words: Sequence[str]) -> Unwrapped:
    found = _launched(launcher, read_accelerate(words), "accelerate launch", told=False)
    note = "accelerate launch: its configuration file is not read; what it says can be given as options"
    return replace(found, notes=(*found.notes, note)) if found.script else found


def _launched(launcher: str, found: Launched, name: str, *, told: bool) -> Unwrapped:
    if found.problem or not found.rest[0]:
        return Unwrapped(problem=f"{found.problem or f'{name} is given no script'}, so it runs as it is")
    unused = ", ".join(found.unused)
    why = "Elastane brings workers together and starts them again"
    return Unwrapped(
        launcher,
        found.rest[0],
        found.module,
        found.rest[1:],
        found.environment,
        found.workers,
        told,
        (f"{name}: {unused} not used: {why}",) if unused else (),
        "",
    )
