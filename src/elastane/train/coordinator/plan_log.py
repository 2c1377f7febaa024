"""The coordinator's memory: an append-only file of JSON lines, on disk before anything acts on them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class PlanLog:
    """Append and replay."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._end_torn_line()

    def _end_torn_line(self) -> None:
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")

    def append(self, entry: Mapping[str, Any]) -> None:
        """On disk when this returns."""
        os.write(self._fd, json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        os.fdatasync(self._fd)

    def entries(self) -> Iterator[dict[str, Any]]:
        """What was appended so far; a torn line (a crash while writing) never took effect and is skipped."""
        for line in self.path.read_bytes().splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                yield entry

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)
