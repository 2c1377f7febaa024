"""What the coordinator wants done; whoever drives it carries these out, in order."""

from __future__ import annotations

from dataclasses import dataclass

from elastane.train.coordinator.messages import ToWorker
from elastane.train.coordinator.plan_entries import Entry
from elastane.train.exit_cause import ExitCause, Outcome
from elastane.train.reports.events import Event

UNTIMED_S = 0.0
"""The time of an event that a coordinator tells: it has no clock, so whoever reports the event says when it was."""


@dataclass(frozen=True, slots=True)
class Send:
    """A message for one worker."""

    worker: str
    message: ToWorker


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a process for this worker."""

    worker: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Make sure that this worker's process is gone (a fence, not a request)."""

    worker: str
    why: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Ask this worker's process to do something, by a signal that it may handle or ignore."""

    worker: str
    number: int


@dataclass(frozen=True, slots=True)
class Record:
    """Append to the log before anything that follows is carried out."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Emit:
    """An event for reports, ``UNTIMED_S``."""

    event: Event


@dataclass(frozen=True, slots=True)
class Finish:
    """The job is over."""

    exit: ExitCause

    @property
    def outcome(self) -> Outcome:
        """How, in one word."""
        return self.exit.outcome

    @property
    def cause(self) -> str:
        """Why, in words; empty where nothing went wrong."""
        return "" if self.exit.clean else str(self.exit)


Action = Send | Spawn | Kill | Signal | Record | Emit | Finish
