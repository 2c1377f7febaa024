"""Interpreters other than ours on a node: which attempts run in one, and which of these turned out to be of no use.

An interpreter that cannot import us cannot tell the coordinator so.  How its process ended is all there is to go by.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from elastane.engines.local.agent_messages import Hopeless, Ok
from elastane.engines.local.environment import for_jobs
from elastane.train.coordinator.last_words import last_words
from elastane.train.coordinator.spawners import AT_BIRTH, CANNOT_IMPORT, without_ours

_FOR_GOOD = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EPERM, errno.ELOOP})


class Strangers:
    """What an agent remembers of them, by attempt."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[str, Path]] = {}
        self._hopeless: dict[str, str] = {}

    def begins(self, attempt: str, python: str, log: str) -> None:
        """A fork server is about to be started there; ``python`` is empty for our own interpreter."""
        if python:
            self._begun[attempt] = python, Path(log)

    def failed(self, attempt: str, error: OSError) -> bool:
        """It could not be started; returns whether that will not change by itself."""
        begun = self._begun.pop(attempt, None)
        if begun is None or error.errno not in _FOR_GOOD:
            return False
        self._hopeless[attempt] = f"{begun[0]}: {error.strerror}"
        return True

    def ended(self, attempt: str, code: int) -> None:
        """A fork server is gone; one that ended by its own choice would do so again."""
        begun = self._begun.pop(attempt, None)
        if begun is not None and code > 0:
            self._hopeless[attempt] = _why(*begun, code)

    def answer(self, attempt: str) -> Ok | Hopeless:
        """For whoever asks whether there can be a fork server."""
        problem = self._hopeless.get(attempt)
        return Ok() if problem is None else Hopeless(problem)

    def hopeless(self, attempt: str) -> bool:
        """Whether there can be none."""
        return attempt in self._hopeless

    def forget(self, attempt: str) -> None:
        """Drop what is known of an attempt that has ended."""
        self._hopeless.pop(attempt, None)


def _why(python: str, log: Path, code: int) -> str:
    words = last_words(log).removeprefix("elastane: error: ")
    if code == CANNOT_IMPORT:
        remedy = f"{python} -m pip install 'elastane[torch]'"
        return f"{python} cannot import elastane.train ({words}); install it with: {remedy}"
    return words or f"{python} ended with exit code {code}"


def born_alike(environment: Mapping[str, str], python: str) -> bool:
    """Whether a fork server that waits already is what an attempt's own would be."""
    ours = for_jobs(os.environ)
    return not python and all(environment.get(name, ours.get(name)) == ours.get(name) for name in AT_BIRTH)


def around(python: str) -> dict[str, str]:
    """What the process of a fork server finds in its environment before anything is added."""
    return without_ours(for_jobs(os.environ)) if python else for_jobs(os.environ)
