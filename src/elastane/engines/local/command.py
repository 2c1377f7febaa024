"""Decides how a command is run: as a script inside a process that is warm already, or as the program it names."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elastane.jobs.interpreters import find_interpreter, find_program, is_environment, packages_of
from elastane.jobs.parts import Interpreter
from elastane.jobs.wrapping import Unwrapped, is_python, unwrap
from elastane.train.coordinator.script_kind import Choice, JobKind, choose_kind, source_of_module, uses


@dataclass(frozen=True, slots=True)
class Runnable:
    """A Python script (or module) with its arguments, or else the words of any other program."""

    script: str = ""
    module: bool = False
    arguments: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    python: str = ""
    """The interpreter of the script; empty is our own."""
    wrapped: Unwrapped = field(default_factory=Unwrapped)

    @property
    def source(self) -> str:
        """What a person would call it."""
        return self.script or self.program[0]

    @property
    def words(self) -> tuple[str, ...]:
        """The command for a script whose interpreter is not ours."""
        script = ("-m", self.script) if self.module else (self.script,)
        return self.program or (self.python or sys.executable, "-u", *script, *self.arguments)


def runnable(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], python: str = ""
) -> Runnable:
    """Take a command apart.  ``python`` is the interpreter that was found for it when it was submitted, if any."""
    what = unwrap(command)
    known, found = _interpreter(what, directory, {**environment, **what.environment}, python)
    if not known:
        return Runnable(program=tuple(command), wrapped=Unwrapped(problem=_why_program(what)))
    script = what.script if what.module else str((directory / what.script).resolve())
    return Runnable(script, what.module, what.arguments, (), found, what)


def _interpreter(
    what: Unwrapped, directory: Path, environment: Mapping[str, str], python: str
) -> tuple[bool, str]:
    """(whether a Python runs it, that one's path or nothing for our own)."""
    if not what.script:
        return False, ""
    found = str(directory / python) if python else find_interpreter(what.launcher, directory, environment)
    plain = is_python(what.launcher) and os.sep not in what.launcher
    if found is None:
        return plain, ""  # no python on the path at all: ours will do
    if _is_ours(found) or (plain and not python and not is_environment(found)):
        return True, ""  # a plain ``python`` that is not an environment's: the one we run in is meant
    return True, found


def _is_ours(interpreter: str) -> bool:
    # An environment's interpreter is a link; the folder it is called from decides what it imports, and where the link
    # leads which Python it is: one folder may hold several.
    found, ours = Path(interpreter), Path(sys.executable)
    return found.parent.resolve() == ours.parent.resolve() and found.resolve() == ours.resolve()


def _why_program(what: Unwrapped) -> str:
    return what.problem or f"no Python interpreter was found for {what.launcher}"


def kind_of(
    asked: str,
    what: Runnable,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    python: Interpreter | None = None,
) -> Choice:
    """How elastic a job is, by its owner's word or by what its script uses and its interpreter has."""
    if asked != "auto":
        return Choice(JobKind(asked), "its spec says so")
    if what.program:
        return Choice(JobKind.COMMAND, what.wrapped.problem)
    choice = choose_kind("auto", source_of(what, directory, environment or {}))
    if choice.kind is JobKind.ADAPTIVE and _lacks_elastane(what, python):
        return Choice(JobKind.COMMAND, f"{choice.reason}, but {_lacking(what.python, python)}")
    return choice


def is_mendable(
    what: Runnable, directory: Path, environment: Mapping[str, str], python: Interpreter | None
) -> bool:
    """Whether it would be adaptive if its interpreter had Elastane, so that its owner can do something about it."""
    if what.program or not _lacks_elastane(what, python):
        return False
    return choose_kind("auto", source_of(what, directory, environment)).kind is JobKind.ADAPTIVE


def goes_by_declarations(source: Path | None) -> bool:
    """Whether a script may read what its owner declares: one that uses only another library's interface does not."""
    return uses(source, "elastane.train") or not uses(source, "elastane.compat")


def _lacks_elastane(what: Runnable, python: Interpreter | None) -> bool:
    return bool(what.python) and not (python and python.elastane)


def _lacking(path: str, python: Interpreter | None) -> str:
    if python is None or python.elastane is None:
        return (
            f"nobody has looked whether {path} has it; hand it in with 'elastane submit', or say kind: adaptive"
        )
    return f"{path} cannot import it; install it with: {path} -m pip install 'elastane[torch]'"


def source_of(what: Runnable, directory: Path, environment: Mapping[str, str] | None = None) -> Path | None:
    """The file of a Python script or module; None if there is none to be read."""
    if what.program:
        return None
    path = _module(what, directory, environment or {}) if what.module else Path(what.script)
    return path if path is not None and path.is_file() else None


def _module(what: Runnable, directory: Path, environment: Mapping[str, str]) -> Path | None:
    given = [str(directory / part) for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    return source_of_module(
        what.script, directory, [*given, *(packages_of(what.python) if what.python else sys.path)]
    )


def missing(what: Runnable, directory: Path, environment: Mapping[str, str]) -> str:
    """What is not there to be run; empty if all is well."""
    if not directory.is_dir():
        return f"there is no directory {directory}"
    if what.program:
        word = what.program[0]
        return "" if find_program(word, directory, environment) else f"there is no program {word}"
    if what.python and not os.access(what.python, os.X_OK):
        return f"there is no interpreter {what.python}"
    if what.module:  # where another interpreter finds its modules is not for us to know
        found = bool(what.python) or _module(what, directory, environment) is not None
        return "" if found else f"there is no module {what.script}"
    return "" if Path(what.script).is_file() else f"there is no script {what.script}"
