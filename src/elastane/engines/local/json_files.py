"""Small JSON files that other processes read: written whole or not at all, for our own eyes only."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elastane.engines.local.untrusted_files import read_bytes, read_object
from elastane.kit.atomic_files import write_atomically

_LONGEST = 1 << 24
_LOOKERS, _INSTANT_S = 5, 0.005


def write_json(path: Path, values: Mapping[str, Any], *, durable: bool = False) -> None:
    """Replace the file in one step; ``durable``: it is on disk when this returns."""
    write_atomically(path, json.dumps(values), private=True, durable=durable)


def read_json(path: Path) -> dict[str, Any] | None:
    """What ``write_json`` wrote; None if there is nothing (or nothing sensible)."""
    data = read_bytes(path.parent, path.name, most=_LONGEST)
    return read_object(data) if data else None


class Lock:
    """A file that one living process at a time can hold; the system lets go of it when that process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def take(self) -> bool:
        """Whether it is ours now."""
        # Who only looks (``held``) has it for an instant, which must not be taken for a holder.
        for _ in range(_LOOKERS):
            if self._try():
                break
            time.sleep(_INSTANT_S)
        else:
            if not self._try():
                return False
        assert self._fd is not None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()} {started(os.getpid())}\n".encode(), 0)
        return True

    def _try(self) -> bool:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        if not stat.S_ISREG(
            os.fstat(fd).st_mode
        ):  # a pipe, say: it could be locked, but never written or let go
            os.close(fd)
            raise FileExistsError(f"{self._path} is not a regular file")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def release(self) -> None:
        """Let another have it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    @property
    def held(self) -> bool:
        """Whether any process holds it now."""
        if self._fd is not None:
            return True
        if not self._path.exists() or not self._try():
            return self._path.exists()
        self.release()
        return False

    def holder(self) -> int | None:
        """The process that holds it: as the kernel tells or, where it does not, as the holder itself wrote."""
        try:
            facts = self._path.stat()
            words = self._path.read_text(errors="replace").split()
        except OSError:
            return None
        listed = _listed_holders(facts.st_dev, facts.st_ino)
        if listed:
            return listed[0]
        if len(words) == 2 and words[0].isdigit() and self.held and started(int(words[0])) == words[1]:
            return int(words[0])
        return None


def started(pid: int) -> str:
    """When a process began, in ticks since the machine did: tells it from a later one with the same number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _listed_holders(device: int, inode: int) -> list[int]:
    """Who holds an exclusive lock on a file, by the kernel's list."""
    place = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    entries = [line.split() for line in lines]
    return [
        int(e[4]) for e in entries if e[1:4] == ["FLOCK", "ADVISORY", "WRITE"] and e[5] == place and e[4] > "0"
    ]
