"""Ends whoever holds a lock and does not let go: a supervisor that was stopped, or a job that took its place.

Holders are found by their open files, as the system lists them.  Nothing is believed that a job could have put in the
place of the lock: a link, or a second name for a file that others hold.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from pathlib import Path


def kill_holders(path: Path) -> list[int]:
    """Kill every process but this one that holds the lock; returns which."""
    found = holders(path)
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return found


def holders(path: Path) -> list[int]:
    """Processes, but this one, that hold an exclusive lock on a regular file with this one name."""
    try:
        facts = path.lstat()
    except OSError:
        return []
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
        return []
    own = str(os.getpid())
    pids = [entry for entry in os.listdir("/proc") if entry.isdigit() and entry != own]  # noqa: PTH208
    return [int(pid) for pid in pids if _holds(pid, facts.st_dev, facts.st_ino)]


def _holds(pid: str, device: int, inode: int) -> bool:
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                facts = os.stat(f"/proc/{pid}/fd/{fd}")  # noqa: PTH116
                if (facts.st_dev, facts.st_ino) == (device, inode) and _locked(pid, fd):
                    return True
    return False


def _locked(pid: str, fd: str) -> bool:
    return any("FLOCK" in line for line in Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines())
