"""Where a hostile job finds itself, and the list in which its deeds are entered."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastane.engines.local.json_files import started

JOURNAL, PLANS, CONTROL, MEMBERS, ENDED = (
    "events.jsonl",
    "plans.jsonl",
    "control.json",
    "members.json",
    "ended.json",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Folders as a job can guess them.  The service's own (``records``, ``attempt``) may be closed to it."""

    run: Path
    scratch: Path

    @property
    def home(self) -> Path:
        """Of the service."""
        return self.run.parent.parent.parent

    @property
    def records(self) -> Path:
        """What the service decides by."""
        return self.home / "control" / self.run.parent.name

    @property
    def attempt(self) -> Path:
        """The present attempt's part of it."""
        found = sorted(self.records.glob("attempt-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        return found[-1] if found else self.records / "attempt-1"

    @property
    def journals(self) -> tuple[Path, Path]:
        """What the service reads, and what lies where an earlier version read."""
        return self.records / JOURNAL, self.run / JOURNAL

    def own_up(self, pid: int) -> None:
        """Tell the benchmark, which cannot know, of a process that hides."""
        with (self.scratch / "pids").open("a") as file:
            file.write(f"{pid} {started(pid)}\n")


Deed = Callable[[Place], None]
DEEDS: dict[str, Deed] = {}


def deed(do: Deed) -> Deed:
    """Enter a deed under its function's name."""
    DEEDS[do.__name__] = do
    return do


def append(path: Path, lines: Iterable[object]) -> None:
    """Add lines to a file: bytes as they are, anything else as JSON."""
    with path.open("ab") as file:
        for line in lines:
            file.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")


def report(place: Place, *lines: object) -> None:
    """Add lines to the journals."""
    for path in place.journals:
        append(path, lines)


def replace(path: Path, make: Callable[[Path], Any]) -> None:
    """Put something else in the place of a file, in one step, so that nobody finds the place empty."""
    other = path.with_name(f".poison-{os.getpid()}")
    make(other)
    os.replace(other, path)  # noqa: PTH105


def put(path: Path, text: str | bytes) -> None:
    """Replace a file's content in one step."""
    replace(path, lambda other: other.write_bytes(text if isinstance(text, bytes) else text.encode()))
