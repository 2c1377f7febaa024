"""Encodes events as lines of JSON, and decodes them from pieces of any size, as files and sockets give them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from elastane.train.reports.events import Event, from_json

_LONGEST_LINE_BYTES = 1 << 22


def line_of(event: Event) -> bytes:
    """Encodes an event as one line with its end; ASCII, so that a torn line never leaves half a character."""
    return json.dumps(event.to_json(), separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


class EventLines:
    """Reassembles lines and decodes them; those that hold no event are skipped and counted in ``skipped``."""

    def __init__(self) -> None:
        self.skipped = 0
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yields the events whose lines are complete with ``data``."""
        *complete, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE_BYTES:
            # Garbage without an end must not fill the memory; what follows of it stays garbage.
            self._rest = b"#"
        return self._events(complete)

    def finish(self) -> Iterator[Event]:
        """Yields the event of a last line without an end, if its JSON object is complete."""
        last, self._rest = self._rest, b""
        return self._events([last])

    def _events(self, lines: list[bytes]) -> Iterator[Event]:
        for line in lines:
            event = self._event(line) if line.strip() else None
            if event is not None:
                yield event

    def _event(self, line: bytes) -> Event | None:
        try:
            return from_json(json.loads(line))
        except (ValueError, RecursionError):
            self.skipped += 1
            return None
