"""The coordinator's memory: an append-only file of JSON lines, on disk before anything acts on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from elastane.train.coordinator.plan_entries import Entry, entries_in
from elastane.train.coordinator.wire import encode_message


class PlanLog:
    """Appends entries to a job's plan log, and reads them again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._end_torn_line()

    def _end_torn_line(self) -> None:
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")

    def append(self, entry: Entry) -> None:
        """On disk when this returns."""
        os.write(self._fd, encode_message(entry))
        os.fdatasync(self._fd)

    def entries(self) -> Iterator[Entry]:
        """What was appended so far, as far as it makes sense."""
        return entries_in(self.path.read_bytes())

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)
