"""Follows the event files of the demo's jobs while they are being written."""

from __future__ import annotations

from dataclasses import dataclass, field

from elastane.engines.local.paths import Layout
from elastane.train.reports.event_file import FILE_NAME
from elastane.train.reports.event_lines import EventLines
from elastane.train.reports.events import Event


@dataclass(slots=True)
class _Journal:
    lines: EventLines = field(default_factory=EventLines)
    offset: int = 0
    events: list[Event] = field(default_factory=list)


class Journals:
    """Reads the training events of each job, by its id."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._journals: dict[str, _Journal] = {}

    def fresh(self, job: str) -> list[Event]:
        """Returns the events that were added since the last call."""
        journal = self._journals.setdefault(job, _Journal())
        try:
            with (self._layout.records(job) / FILE_NAME).open("rb") as file:
                file.seek(journal.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        journal.offset += len(data)
        found = list(journal.lines.feed(data))
        journal.events += found
        return found

    def events(self, job: str) -> tuple[Event, ...]:
        """Returns all events of a job that were read so far."""
        return tuple(self._journals[job].events) if job in self._journals else ()
