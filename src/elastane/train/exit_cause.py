"""An ``ExitCause`` says why a process, and with it perhaps its job, ended: a kind to decide by, and words to show.

What becomes of a job is decided by ``kind``, ``code`` and ``signal``: ``cause_of`` in ``engines/contract.py`` says
what a kind means for a job, ``service/control/state_after_end.py`` makes the next state of it.  ``detail`` is for
people: much of it is what a script wrote itself, which may say anything; no decision reads words in it (two ends may be
compared as a whole).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

Outcome = Literal["finished", "failed", "stopped"]

CANNOT_START = 127
"""Exit code of a worker whose program or directory is not there, as a shell would have it."""


class ExitKind(StrEnum):
    """What kind of end it was."""

    FINISHED = "finished"
    """It ended by itself, with exit code 0."""
    EXIT_CODE = "exit code"
    """It ended by itself, with another exit code."""
    SIGNAL = "signal"
    OUT_OF_MEMORY = "out of memory"
    """A Python script ended by an exception of a type that means that memory ran out, or the kernel ended it."""
    UNSTARTABLE = "cannot be started"
    """Its program or its directory is not there."""
    NODE_LOST = "node lost"
    """The machine, or all of ours that watches it, is gone; the process had no part in it."""
    GIVEN_UP = "given up"
    """The coordinator ended it: it hung, was silent, or does not fit the others."""
    SUSPENDED = "suspended"
    """The job was asked to save and leave."""
    CANCELLED = "cancelled"
    """The job was asked to end for good."""


@dataclass(frozen=True, slots=True)
class ExitCause:
    """Why a process or a job ended."""

    kind: ExitKind
    code: int | None = None
    signal: int | None = None
    detail: str = ""
    words: str = field(default="", compare=False)
    """What its program said last, where ``detail`` says more than that: to look up what a library wrote, not we."""

    @classmethod
    def of_process(cls, code: int, *, out_of_memory: bool = False) -> ExitCause:
        """The cause behind an exit code as ``os.waitstatus_to_exitcode`` gives it: a signal is below 0.

        >>> str(ExitCause.of_process(3)), str(ExitCause.of_process(-9))
        ('exit code 3', 'killed by signal 9')
        """
        if code < 0:
            return cls(ExitKind.OUT_OF_MEMORY if out_of_memory else ExitKind.SIGNAL, signal=-code)
        if code == 0:
            return FINISHED
        kind = ExitKind.UNSTARTABLE if code == CANNOT_START else ExitKind.EXIT_CODE
        return cls(ExitKind.OUT_OF_MEMORY if out_of_memory else kind, code)

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong in it."""
        return self.kind is ExitKind.FINISHED

    @property
    def outcome(self) -> Outcome:
        """What that means for a job that ended so."""
        if self.clean:
            return "finished"
        return "stopped" if self.kind in (ExitKind.SUSPENDED, ExitKind.CANCELLED) else "failed"

    @property
    def described(self) -> str:
        """The kind of end in words, whatever its detail."""
        if self.code is not None:
            return f"exit code {self.code}"
        if self.signal is not None and self.kind is ExitKind.OUT_OF_MEMORY:
            return "killed by the kernel: out of memory"
        if self.signal is not None:
            return f"killed by signal {self.signal}"
        return "its node was lost" if self.kind is ExitKind.NODE_LOST else self.kind.value

    def told(self, detail: str) -> ExitCause:
        """The same cause in other words; without any it stays as it is."""
        return replace(self, detail=detail) if detail else self

    def said(self, words: str) -> ExitCause:
        """The same cause with the last words of its program."""
        return replace(self, words=words)

    def __str__(self) -> str:
        return self.detail or self.described


FINISHED = ExitCause(ExitKind.FINISHED, 0)
NODE_LOST = ExitCause(ExitKind.NODE_LOST)


def given_up(why: str) -> ExitCause:
    """Somebody of ours decided that it could not go on."""
    return ExitCause(ExitKind.GIVEN_UP, detail=why)


def cancelled(why: str) -> ExitCause:
    """Somebody asked for the end."""
    return ExitCause(ExitKind.CANCELLED, detail=why)
