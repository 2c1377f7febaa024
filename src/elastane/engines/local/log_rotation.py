"""Keeps workers' logs from filling the disk: a long one is set aside, its worker goes on with an empty one.

Workers hold their log open for appending, so it is copied and cut, not renamed.  What a worker writes in the moment
between the two is lost; one older part is kept, and the log begins with a line that says so.  The folder is the job's,
who may put anything there at any moment: only regular files with one name are touched, and each is opened from its
folder, never through a link.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

LONGEST_BYTES = 64 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOG = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_COPY = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PART_BYTES = 1 << 20


def rotate(folder: Path, longest_bytes: int = LONGEST_BYTES) -> list[Path]:
    """Set long logs aside as ``NAME.log.1``; returns which."""
    rotated = []
    with contextlib.suppress(OSError), _opened(folder, _FOLDER) as place:
        for name in sorted(entry for entry in os.listdir(place) if entry.endswith(".log")):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if _set_aside(place, name, longest_bytes):
                    rotated.append(folder / name)
    return rotated


def set_aside(folder: Path, name: str, longest_bytes: int = LONGEST_BYTES) -> bool:
    """Set one log aside if it is longer than that; whether it was."""
    with contextlib.suppress(OSError), _opened(folder, _FOLDER) as place:
        return _set_aside(place, name, longest_bytes)
    return False


def _set_aside(place: int, name: str, longest_bytes: int) -> bool:
    if os.stat(name, dir_fd=place, follow_symlinks=False).st_size <= longest_bytes:
        return False
    with _opened(name, _LOG, place) as log:
        facts = os.fstat(log)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or facts.st_uid != os.fstat(place).st_uid:
            return False  # whose file that is, nobody knows
        dropped = False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{name}.1", dir_fd=place)
            dropped = True
        with _opened(f"{name}.1", _COPY, place) as copy:
            if facts.st_uid != os.geteuid():
                os.fchown(copy, facts.st_uid, facts.st_gid)
            _copy(log, copy, facts.st_size)
        os.ftruncate(log, 0)
        os.write(log, _note(name, dropped=dropped))
    return True


def _note(name: str, *, dropped: bool) -> bytes:
    """For whoever reads the log and wonders where its beginning is."""
    before = "; what came before that was dropped" if dropped else ""
    return f"elastane: this log grew too long, its earlier part is in logs/{name}.1 of the job's run{before}\n".encode()


def _copy(source: int, target: int, size: int) -> None:
    """As much as there was when it was looked at: its writer may be faster than we are."""
    at = 0
    while at < size and (data := os.pread(source, min(_PART_BYTES, size - at), at)):
        os.write(target, data)
        at += len(data)


@contextlib.contextmanager
def _opened(path: str | Path, flags: int, place: int | None = None) -> Iterator[int]:
    fd = os.open(path, flags, 0o600, dir_fd=place)
    try:
        yield fd
    finally:
        os.close(fd)
