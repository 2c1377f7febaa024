"""Reads the beginning of files that a submitted job names: scripts, and the launchers that start them.

Whoever submits chooses the path, and the control plane may be root.  A pipe, a device or a file of the kernel's own
would let it wait for ever, and an endless file would fill its memory: only regular files of a sensible size are read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 20
"""Of a script that is parsed: a parser takes about a second for as much, and stops the whole process meanwhile."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KERNEL = ("/proc", "/sys")
"""Where reading may wait for news, or take them from somebody else."""


class Unreadable(OSError):
    """Raised for a file that is not read, with the reason in words."""


def read_source(path: Path) -> bytes:
    """The whole of a script; ``Unreadable`` if it is no regular file or larger than a script can be."""
    return _read(path, MOST_BYTES, whole=True)


def read_beginning(path: Path, most: int) -> bytes:
    """The first bytes of a regular file of any size."""
    return _read(path, most, whole=False)


def _read(path: Path, most: int, *, whole: bool) -> bytes:
    try:
        _check(path.stat(), most, whole=whole)  # to open is more than some devices bear
        fd = os.open(path, _FLAGS)
    except Unreadable:
        raise
    except (OSError, ValueError) as error:
        raise Unreadable(getattr(error, "strerror", None) or str(error)) from None
    try:
        size = _check(os.fstat(fd), most, whole=whole)
        return os.read(fd, min(size, most))
    except BlockingIOError:
        raise Unreadable("it has to be waited for") from None
    finally:
        os.close(fd)


def _check(found: os.stat_result, most: int, *, whole: bool) -> int:
    if not stat.S_ISREG(found.st_mode) or found.st_dev in _devices_of_the_kernel():
        raise Unreadable("it is not a regular file")
    if whole and found.st_size > most:
        raise Unreadable(f"it is larger than {most >> 20} MB")
    return found.st_size


def _devices_of_the_kernel() -> set[int]:
    return {os.stat(place).st_dev for place in _KERNEL if os.path.ismount(place)}  # noqa: PTH116
