"""Answers questions about all events of a run: sessions, changes of workers, times since its first event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from elastane.train.errors import TrainError
from elastane.train.reports.events import VERSION, Ended, Event, Resized, Started, Stepped

Kind = TypeVar("Kind", bound=Event)


@dataclass(frozen=True)
class History:
    """The events of a run so far; it may have been resumed several times, each time by a new session."""

    events: tuple[Event, ...]

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Returns the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def since_start(self, event: Event) -> float:
        """Returns the seconds between the first event and this one."""
        return max(0.0, event.at_s - self.events[0].at_s)

    @property
    def span_s(self) -> float:
        """Seconds between the first and the last event."""
        return max(self.since_start(event) for event in self.events)

    @property
    def sessions(self) -> list[tuple[Event, ...]]:
        """The events of each set of processes that worked on the run."""
        starts = [i for i, event in enumerate(self.events) if isinstance(event, Started)]
        begins = [0, *starts[1:]]  # a notice before the first one belongs to it
        return [self.events[a:b] for a, b in zip(begins, [*begins[1:], len(self.events)], strict=True)]

    @property
    def newer_version(self) -> int | None:
        """The version of the events if it is one that this reader does not know."""
        newest = max((start.version for start in self.of(Started)), default=VERSION)
        return newest if newest > VERSION else None

    def worker_changes(self) -> list[tuple[float, int]]:
        """Returns (seconds since start, workers) whenever the count changes; 0 between two sessions."""
        changes: list[tuple[float, int]] = []
        for at_s, count in self._worker_counts():
            if not changes or changes[-1][1] != count:
                changes.append((at_s, count))
        return changes

    def _worker_counts(self) -> Iterator[tuple[float, int]]:
        last_s, begun = 0.0, False
        for event in self.events:
            at_s = self.since_start(event)
            match event:
                case Started():
                    if begun:  # a notice may come before the first session
                        yield last_s, 0
                    begun = True
                    yield at_s, event.workers
                case Resized():
                    yield at_s, event.after
                case Stepped():
                    yield at_s, event.workers
            last_s = at_s


def collect(events: Iterable[Event]) -> History:
    """Makes the history of a run from its events.

    Raises:
        TrainError: there are no events.
    """
    found = tuple(events)
    if not found:
        raise TrainError("there are no events of a run to show")
    return History(found)


def wall_s(session: tuple[Event, ...]) -> float:
    """Returns the seconds of one session: as its ``Ended`` says, else from its first to its last event."""
    last = session[-1]
    return last.wall_s if isinstance(last, Ended) else max(0.0, last.at_s - session[0].at_s)


def redone_steps(history: History) -> int:
    """Counts steps computed more than once: those under way at a failure, and complete ones lost by going back."""
    redone = sum(event.redone_steps for event in history.of(Resized))
    reached = 0
    for window in history.of(Stepped):
        redone += max(0, reached - (window.step - window.steps))
        reached = window.step
    return redone
