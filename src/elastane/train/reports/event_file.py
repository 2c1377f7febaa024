"""Reads and writes a run's events in ``events.jsonl``: one JSON object per line, one writer, any number of readers.

A line is torn when its writer died within it.  Readers pass over such lines, the next writer ends them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from elastane.train.errors import TrainError
from elastane.train.reports.event_lines import EventLines, line_of
from elastane.train.reports.events import Ended, Event

FILE_NAME = "events.jsonl"

_POLL_S = 0.1
_CHUNK_BYTES = 1 << 16


class Journal:
    """Appends events; safe to call from several threads.

    A full disk must not end a training run: what cannot be written is counted in ``dropped``.
    """

    def __init__(self, path: Path) -> None:
        """Opens or creates the file, and its folder if need be."""
        self.path = path
        self.dropped = 0
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._torn = _ends_torn(self._fd)
        except OSError as error:
            raise TrainError(f"the events of this run cannot be written to {path}: {error.strerror}") from error

    def write(self, event: Event) -> None:
        """Appends one event; a failure is counted in ``dropped`` and not raised."""
        line = line_of(event)
        with self._lock:
            self._append(b"\n" + line if self._torn else line)

    def close(self) -> None:
        """Closes the file; closing twice does no harm."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, data: bytes) -> None:
        try:
            written = os.write(self._fd, data)
        except OSError:
            written = 0
        if written < len(data):
            self.dropped += 1
        # Nothing written leaves the file as it was; a part of a line has to be ended by the next one.
        self._torn = 0 < written < len(data) or (written == 0 and self._torn)


class JournalReader(Iterator[Event]):
    """The events of a file, in order; ``skipped`` counts the lines so far that hold none."""

    def __init__(self, path: Path) -> None:
        """Opens the file, which has to exist."""
        self._lines = EventLines()
        try:
            self._events = self._read(path.open("rb"))
        except OSError as error:
            raise TrainError(f"there are no events of a run in {path}: {error.strerror}") from error

    @property
    def skipped(self) -> int:
        """The number of torn lines and garbage; an event of an unknown type is neither."""
        return self._lines.skipped

    def __next__(self) -> Event:
        return next(self._events)

    def _read(self, file: BinaryIO) -> Iterator[Event]:
        with file:
            while data := file.read(_CHUNK_BYTES):
                yield from self._lines.feed(data)
        yield from self._lines.finish()


def read_journal(path: Path) -> JournalReader:
    """Opens the events in a file; a folder means the ``events.jsonl`` in it.

    Raises:
        TrainError: there is no such file.
    """
    return JournalReader(_file_of(path))


def load_run(path: Path) -> list[Event]:
    """Reads all events of a finished or running run.

    Raises:
        TrainError: there is no such file, or no event in it.
    """
    reader = read_journal(path)
    events = list(reader)
    if not events:
        state = f"none of its {reader.skipped} lines is an event" if reader.skipped else "it is empty"
        raise TrainError(f"there are no events of a run in {_file_of(path)}: {state}")
    return events


def follow(path: Path, stop: threading.Event | None = None) -> Iterator[Event]:
    """Yields the events in a file, then those that are added to it; the file may appear later.

    Ends once ``stop`` is set and everything written has been read; without ``stop``, at the end of a run that has
    ended.
    """
    file_path, lines, last = _file_of(path), EventLines(), None
    asked = stop or threading.Event()
    position = 0
    while True:
        stopping = asked.is_set()  # looked at before reading: what was written by then is still read
        data = _read_from(file_path, position)
        position += len(data)
        for last in lines.feed(data):
            yield last
        if data:
            continue
        if stopping or (stop is None and isinstance(last, Ended)):
            return
        asked.wait(_POLL_S)


def _read_from(path: Path, position: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(position)
            return file.read(_CHUNK_BYTES)
    except FileNotFoundError:
        return b""


def _file_of(path: Path) -> Path:
    return path / FILE_NAME if path.is_dir() else path


def _ends_torn(fd: int) -> bool:
    """Tells whether the file ends within a line, because its last writer died there."""
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"
