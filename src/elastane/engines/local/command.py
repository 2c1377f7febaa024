"""How a command is run: as a script inside a process that is warm already, or as the program it names."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elastane.train.control.kinds import Choice, JobKind, choose_kind, source_of_module

_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_HARMLESS = frozenset({"-u"})
"""Options of the interpreter that change nothing for us: workers' output is not buffered anyway."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """A Python script (or module) with its arguments, or else the words of any other program."""

    script: str = ""
    module: bool = False
    arguments: tuple[str, ...] = ()
    program: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """What a person would call it."""
        return self.script or self.program[0]


def runnable(command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> Runnable:
    """Take a command apart.  Scripts for our own interpreter are run in it; anything else is a program."""
    words = list(command)
    if not _is_our_python(words[0], directory, environment):
        return Runnable(program=tuple(words))
    rest = words[1:]
    while rest and rest[0] in _HARMLESS:
        rest = rest[1:]
    if len(rest) >= 2 and rest[0] == "-m":
        return Runnable(rest[1], module=True, arguments=tuple(rest[2:]))
    if rest and not rest[0].startswith("-"):
        return Runnable(str((directory / rest[0]).resolve()), arguments=tuple(rest[1:]))
    return Runnable(program=tuple(words))


def _is_our_python(word: str, directory: Path, environment: Mapping[str, str]) -> bool:
    if not _PYTHON.fullmatch(Path(word).name):
        return False
    found = shutil.which(str(directory / word) if os.sep in word else word, path=environment.get("PATH"))
    # An environment's interpreter is a link; the folder it is called from decides what it imports.
    if found is None:
        return os.sep not in word  # no python on the path at all: ours will do
    return Path(found).parent.resolve() == Path(sys.executable).parent.resolve() or (
        os.sep not in word and _has_elastane_only_here(found)
    )


def _has_elastane_only_here(found: str) -> bool:
    """A plain ``python`` that is not an environment's: the one we run in is meant."""
    return not (Path(found).parent.parent / "pyvenv.cfg").exists()


def kind_of(asked: str, what: Runnable, directory: Path) -> Choice:
    """How elastic a job is, by its owner's word or by what its script uses."""
    if asked != "auto":
        return Choice(JobKind(asked), "its spec says so")
    if what.program:
        return Choice(JobKind.RIGID, "it is not a Python script of this environment")
    return choose_kind("auto", source_of(what, directory))


def source_of(what: Runnable, directory: Path) -> Path | None:
    """The file of a Python script or module; None if there is none to be read."""
    if what.program:
        return None
    path = source_of_module(what.script, directory) if what.module else Path(what.script)
    return path if path is not None and path.is_file() else None


def missing(what: Runnable, directory: Path, environment: Mapping[str, str]) -> str:
    """What is not there to be run; empty if all is well."""
    if not directory.is_dir():
        return f"there is no directory {directory}"
    if what.program:
        word = what.program[0]
        place = str(directory / word) if os.sep in word else word
        return "" if shutil.which(place, path=environment.get("PATH")) else f"there is no program {word}"
    if what.module:
        return "" if source_of_module(what.script, directory) else f"there is no module {what.script}"
    return "" if Path(what.script).is_file() else f"there is no script {what.script}"
