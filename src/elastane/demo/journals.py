"""What jobs say of their own training, read from the home of the demo as it is written."""

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
    """The events of each job, by its id."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._journals: dict[str, _Journal] = {}

    def fresh(self, job: str) -> list[Event]:
        """Those that were added since this was last asked."""
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
        """All that were read so far."""
        return tuple(self._journals[job].events) if job in self._journals else ()
