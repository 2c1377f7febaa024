"""The coordinator's memory: an append-only file of JSON lines, on disk before anything acts on them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elastane.codec import decoded, encoded
from elastane.train.coordinator.actions import Finish
from elastane.train.exit_cause import FINISHED, ExitCause, ExitKind


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


def finish_entry(finish: Finish) -> dict[str, Any]:
    """The entry that says how a job ended."""
    words = {"outcome": finish.outcome, "cause": finish.cause}
    return {"type": "finish", **words, "exit": encoded(finish.exit)}


_KINDS = {"finished": ExitKind.FINISHED, "stopped": ExitKind.CANCELLED}


def finish_of(entry: Mapping[str, Any]) -> Finish:
    """The inverse of ``finish_entry``; earlier versions wrote an outcome and words only."""
    try:
        return Finish(decoded(ExitCause, entry.get("exit")))
    except ValueError:
        kind = _KINDS.get(entry["outcome"], ExitKind.GIVEN_UP)
        words = str(entry["cause"])
        return Finish(FINISHED if kind is ExitKind.FINISHED else ExitCause(kind, detail=words))
