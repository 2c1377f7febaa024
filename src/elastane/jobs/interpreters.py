"""Finds the Python interpreter that a command would run with, by files alone: nothing is started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from elastane.jobs.sources import read_beginning
from elastane.jobs.wrapping import PROJECT_RUNNERS, is_python

_LONGEST_LINE = 512


def find_interpreter(launcher: str, directory: Path, environment: Mapping[str, str]) -> str | None:
    """The interpreter behind a word such as ``python3``, ``torchrun`` or ``uv``; None if there is none to be found.

    Links are not followed: the folder that an interpreter is called from decides what it imports.
    """
    if Path(launcher).name in PROJECT_RUNNERS:
        return _of_project(directory)
    found = find_program(launcher, directory, environment)
    if found is None or is_python(launcher):
        return found
    return _of_script(Path(found))


def find_program(word: str, directory: Path, environment: Mapping[str, str]) -> str | None:
    """Find the file of a program that is called by its name or its path."""
    place = str(directory / word) if os.sep in word else word
    found = shutil.which(place, path=environment.get("PATH"))
    return None if found is None else os.path.abspath(directory / found)  # noqa: PTH100


def is_environment(interpreter: str) -> bool:
    """Tell whether an interpreter belongs to a virtual environment (of venv, uv, conda, …)."""
    folder = Path(interpreter).parent.parent
    return (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").is_dir()


def packages_of(interpreter: str) -> list[str]:
    """List the folders in which an interpreter looks for installed packages."""
    return sorted(map(str, Path(interpreter).parent.parent.glob("lib/python3*/site-packages")))


def _of_project(directory: Path) -> str | None:
    for folder in (directory, *directory.parents):
        own = folder / ".venv" / "bin" / "python"
        if own.exists():
            return str(own)
        if (folder / "pyproject.toml").exists():
            return None
    return None


def _of_script(script: Path) -> str | None:
    """Find the interpreter of an installed command: named in its first line, else the one beside it."""
    try:
        first = read_beginning(script, _LONGEST_LINE).partition(b"\n")[0].decode(errors="replace")
    except OSError:
        first = ""
    named = first.removeprefix("#!").split()[0] if first.startswith("#!") and first[2:].split() else ""
    if is_python(named) and Path(named).exists():
        return named
    beside = script.parent / "python"
    return str(beside) if beside.exists() else None
