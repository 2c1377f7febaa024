"""Reads files that a job may write, as hostile input: nothing in them can stop, fill or confuse whoever reads.

Only regular files are opened, by no link, without waiting; what is read at a time is bounded, and so is a line.
Reading is done in a thread (``read_events``); ``has_more`` is cheap enough for the event loop.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastane.train.reports.events import Event, check_measured, from_json

LOOK_BYTES = 1 << 18
"""Read at a time."""
LONGEST_LINE = 1 << 16
LOOK_EVENTS, LOOK_LINES = 200, 1000
"""Events taken, and lines looked at, at a time: an honest job reports about one a second."""
_SKIP_LOOKS = 256
"""Pieces of an endless line that are passed over at a time."""
_LONGEST_TEXT = 4000
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)
"""What reading a value may raise that somebody made up."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe put in its place must not stop us


def open_below(top: Path, *names: str) -> int:
    """A descriptor of the regular file ``top/names…``; no step below ``top`` follows a link.

    A job may replace its files at any moment, so each step of the way is opened from the folder before it.

    Raises:
        OSError: there is no such file, or it is something else.
    """
    folder = _folder_below(top, *names[:-1])
    try:
        file = os.open(names[-1], _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    if not _is_plain(os.fstat(file)):
        os.close(file)
        raise FileNotFoundError(f"{names[-1]} is not a regular file")
    return file


def sizes_below(top: Path, *names: str) -> dict[str, int]:
    """Bytes in each regular file of the folder ``top/names…``; none if a link leads there, or it is no folder."""
    try:
        folder = _folder_below(top, *names)
    except (OSError, ValueError):
        return {}
    try:
        found = {}
        for name in os.listdir(folder):  # noqa: PTH208
            with contextlib.suppress(OSError, ValueError):
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if _is_plain(facts):
                    found[name] = facts.st_size
        return found
    finally:
        os.close(folder)


def _folder_below(top: Path, *names: str) -> int:
    folder = os.open(top, _FOLDER)
    try:
        for name in names:
            inner = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder


def _is_plain(facts: os.stat_result) -> bool:
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1  # with a second name it may be anybody's


def read_bytes(top: Path, *names: str, most: int = LOOK_BYTES) -> bytes:
    """The beginning of a file, at most so many bytes; nothing of one that cannot be read."""
    try:
        file = open_below(top, *names)
    except (OSError, ValueError):
        return b""
    try:
        return os.pread(file, most, 0)
    except OSError:
        return b""
    finally:
        os.close(file)


def read_object(text: bytes) -> dict[str, Any] | None:
    """A JSON object; None for anything else."""
    try:
        values = json.loads(text)
    except UNREADABLE:
        return None
    return values if isinstance(values, dict) else None


def clean(text: object, most: int = _LONGEST_TEXT) -> str:
    """A text that can be stored and sent: half characters are shown as escapes, and it is not endless."""
    return str(text)[:most].encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a journal found: (offset after it, event), where to read on, and whether there is more now.

    ``lines`` is how much work it was.
    """

    events: tuple[tuple[int, Event], ...]
    offset: int
    more: bool
    lines: int = 0


def has_more(path: Path, offset: int) -> bool:
    """Whether a regular file is longer than that; opens nothing."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size > offset


def size_of(path: Path) -> int:
    """Bytes in a regular file; 0 for anything else."""
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def read_events(path: Path, offset: int) -> Look:
    """The events of the whole lines after ``offset``, as far as one look goes."""
    try:
        file = open_below(path.parent.parent, path.parent.name, path.name)
    except (OSError, ValueError):
        return Look((), offset, more=False)
    try:
        return _look(file, offset)
    except OSError:
        return Look((), offset, more=False)
    finally:
        os.close(file)


def _look(file: int, offset: int) -> Look:
    data = os.pread(file, LOOK_BYTES, offset)
    end = data.rfind(b"\n") + 1
    if not end:
        return _pass_over(file, offset, data)
    found: list[tuple[int, Event]] = []
    place = lines = 0
    while place < end and len(found) < LOOK_EVENTS and lines < LOOK_LINES:
        after, lines = data.index(b"\n", place) + 1, lines + 1
        event = _event(data[place : after - 1]) if after - place <= LONGEST_LINE else None
        place = after
        if event is not None:
            found.append((offset + place, event))
    return Look(tuple(found), offset + place, more=place < end or len(data) == LOOK_BYTES, lines=lines)


def _pass_over(file: int, offset: int, data: bytes) -> Look:
    """Without the end of a line: it is still being written, or too long to be one of ours and skipped."""
    if len(data) <= LONGEST_LINE:
        return Look((), offset, more=False)
    for _ in range(_SKIP_LOOKS):
        end = data.find(b"\n") + 1
        offset += end or len(data)
        if end or not data:
            break
        data = os.pread(file, LOOK_BYTES, offset)
    return Look((), offset, more=bool(data))


def _event(line: bytes) -> Event | None:
    try:
        values = json.loads(line)
        if b"\\ud" in line.lower():  # perhaps half a character, which can be neither stored nor sent
            values = json.loads(json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"))
        event = from_json(values)
        if event is not None:
            check_measured(event)
        return event
    except UNREADABLE:
        return None  # torn by a crash, or made up; it was never told
