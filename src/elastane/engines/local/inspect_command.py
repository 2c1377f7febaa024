"""Inspects a command before it runs.  Sweeps hand the same one in many times: it is looked at once a second.

Only good news is kept: whoever was told that a script is missing may put it there and ask again at once.
Nothing is started here: what an interpreter can import is said by whoever submits, who has asked it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from elastane.engines.contract import Examined
from elastane.engines.local.command import (
    Runnable,
    goes_by_declarations,
    is_mendable,
    kind_of,
    missing,
    runnable,
    source_of,
)
from elastane.jobs.interpreters import is_environment
from elastane.jobs.parts import Interpreter
from elastane.train.coordinator.script_kind import JobKind, choose_kind, uses

_FRESH_S = 1.0
_MOST = 256
_LOOKED_AT = ("PATH", "PYTHONPATH")
_Asked = tuple[str, tuple[str, ...], str, tuple[str | None, ...], Interpreter | None]


class Examiner:
    """Remembers for a moment what it saw.  Several threads may ask at once: at worst two look at the same thing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[_Asked, tuple[float, Examined]] = {}

    def known(
        self,
        kind: str,
        command: Sequence[str],
        directory: str,
        environment: Mapping[str, str],
        python: Interpreter | None = None,
    ) -> Examined | None:
        """What was seen a moment ago, if it was; no file is touched."""
        at_s, found = self._seen.get(_asked(kind, command, directory, environment, python), (0.0, None))
        return found if found is not None and self._clock() - at_s < _FRESH_S else None

    def examine(
        self,
        kind: str,
        command: Sequence[str],
        directory: str,
        environment: Mapping[str, str],
        python: Interpreter | None = None,
    ) -> Examined:
        """By its source, if it is a Python script."""
        known = self.known(kind, command, directory, environment, python)
        if known is not None:
            return known
        found = _look(kind, command, Path(directory), environment, python)
        if not found.missing:
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen[_asked(kind, command, directory, environment, python)] = (self._clock(), found)
        return found


def _asked(
    kind: str,
    command: Sequence[str],
    directory: str,
    environment: Mapping[str, str],
    python: Interpreter | None,
) -> _Asked:
    return kind, tuple(command), directory, tuple(map(environment.get, _LOOKED_AT)), python


def _look(
    kind: str,
    command: Sequence[str],
    place: Path,
    environment: Mapping[str, str],
    python: Interpreter | None,
) -> Examined:
    what = runnable(command, place, environment, python.path if python else "")
    notes = what.wrapped.notes
    absent = _absent(kind, what, place, environment, python) if python is not None else ""
    if python is not None and absent:
        notes = (*notes, f"{python.path} has no {absent}, so the job runs with {sys.executable}")
        python, what = None, runnable(command, place, environment)
    lacking = missing(what, place, environment)
    if lacking:
        return Examined(kind, "", lacking)
    choice = kind_of(kind, what, place, environment, python)
    asked = what.wrapped.workers
    mendable = kind == "auto" and is_mendable(what, place, environment, python)
    heeds = goes_by_declarations(source_of(what, place, environment))
    return Examined(choice.kind.value, choice.reason, "", python, asked, notes, mendable, heeds)


def _absent(kind: str, what: Runnable, place: Path, environment: Mapping[str, str], python: Interpreter) -> str:
    """What a script needs and the machine's own python does not have: then ``python`` alone stands for ours.

    That is what happens when nobody has activated the environment in which Elastane is installed.
    """
    if not what.python or "/" in what.wrapped.launcher or is_environment(what.python):
        return ""
    source = source_of(what, place, environment)
    if python.elastane == "" and choose_kind(kind, source).kind is JobKind.ADAPTIVE:
        return "elastane"
    return "torch" if python.torch is False and uses(source, "torch") else ""
