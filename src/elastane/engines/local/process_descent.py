"""Finds processes by who started whom: what is left where there are no cgroups.

Fork servers and agents are *subreapers*: a process whose parents have ended becomes the child of the nearest one above
it, whatever session it began and whatever it did to its environment, so it can always be found from there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

from elastane.engines.local.json_files import read_json, started, write_json

_PR_SET_CHILD_SUBREAPER = 36
_LISTED = Path("/proc/thread-self/children").exists()
"""Whether the system lists children; else all processes have to be asked for their parent."""
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Be a subreaper: from now on, and over an ``exec``; children are none by themselves."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid: int) -> list[int]:
    """Processes whose parent this is now; ended ones that nobody has waited for included."""
    if not _LISTED:
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _parent(entry) == pid]  # noqa: PTH208
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def _parent(pid: str) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children(one)
    return found


def kill_descendants(pid: int) -> bool:
    """Kill all below a process, which itself goes on; whether nobody was left but what it has to wait for."""
    living = [one for one in descendants(pid) if not ended(one)]
    kill(living)
    return not living


def kill_strays(known: Iterable[int]) -> bool:
    """Kill children of this process that it did not start: their fork server has ended; whether there were none."""
    kept = {os.getpid(), *known}
    strays = [one for one in children(os.getpid()) if one not in kept]
    for one in strays:
        kill([*descendants(one), one])
        with contextlib.suppress(ChildProcessError):
            os.waitpid(one, os.WNOHANG)
    return not strays


def ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return True


def kill(pids: Iterable[int]) -> None:
    """Kill −9, whoever is still there."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


class Notes:
    """Processes below somebody, written down now and then, for whoever comes after he was killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: Mapping[str, str] = {}

    def write(self, tops: Iterable[int]) -> None:
        """Note who lives below; nothing is written if nothing changed."""
        found = {str(pid): started(pid) for top in tops for pid in (top, *descendants(top))}
        if found != self._last:
            self._last = found
            with contextlib.suppress(OSError):
                write_json(self._path, found)

    def end(self) -> None:
        """Kill those of the last note that are still the same processes."""
        noted = read_json(self._path) or {}
        kill(int(pid) for pid, when in noted.items() if pid.isdigit() and when and started(int(pid)) == when)
        with contextlib.suppress(OSError):  # something else may stand in place of the node's folder
            self._path.unlink()
