"""Reading a job's log files, and nothing else: no symbolic link is followed, no way leads out of the job's folder.

A job may replace its files at any moment, so paths are not checked and then opened: each step of the way is opened
from the folder before it.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from elastane.engines.local import untrusted_files
from elastane.service.protocol import NotFound

_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.ENAMETOOLONG}


class LogReader:
    """An open log file, read in parts."""

    def __init__(self, path: Path, job: str) -> None:
        self._path = path
        self._job = job
        self._file = open_below(path, job)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    @property
    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._file).st_size

    def read(self, offset: int, limit: int) -> bytes:
        """At most ``limit`` bytes from ``offset`` on; nothing at the end of the file."""
        return os.pread(self._file, limit, offset)

    def turned(self) -> bool:
        """Whether another file has taken this one's place (or this one was emptied): goes over to it."""
        try:
            fresh = open_below(self._path, self._job)
        except NotFound:  # between the two renames of a rotation
            return False
        if os.path.sameopenfile(fresh, self._file):
            os.close(fresh)
            return False
        os.close(self._file)
        self._file = fresh
        return True


def open_below(path: Path, job: str) -> int:
    """A descriptor of a regular file below the folder named as the job; ``NotFound`` if there is none."""
    parts = path.parts
    if ".." in parts or job not in parts[:-1]:
        raise _no_log(job)
    top = len(parts) - 2 - parts[-2::-1].index(job)
    try:
        return untrusted_files.open_below(Path(*parts[: top + 1]), *parts[top + 1 :])
    except OSError as error:
        if error.errno is None or error.errno in _NOT_THERE:
            raise _no_log(job) from None
        raise


def _no_log(job: str) -> NotFound:
    return NotFound(f"job {job} has no such log; 'elastane logs {job} --list' shows those it has")
