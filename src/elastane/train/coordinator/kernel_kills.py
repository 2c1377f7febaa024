"""Tells which of a fork server's workers the kernel killed because memory ran out, by the counter of its control group.

The counter is of the whole group (version 2: ``memory.events``, version 1: ``memory.oom_control``), so of a worker that
somebody kills at the same moment it can be wrong.  Where there is no such file, nothing is told.
"""

from __future__ import annotations

from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_COUNTER = "oom_kill"


class KernelKills:
    """Deaths of this kind that no worker was found for yet."""

    def __init__(self, own: Path = _OWN, root: Path = _ROOT) -> None:
        self._file = _events(own, root)
        self._seen = self._count()
        self._open = 0

    def took(self) -> bool:
        """Whether a worker that a SIGKILL has just ended was one; each death explains one worker."""
        now = self._count()
        self._open += max(0, now - self._seen)
        self._seen = now
        if not self._open:
            return False
        self._open -= 1
        return True

    def _count(self) -> int:
        try:
            lines = self._file.read_text().splitlines() if self._file is not None else []
            return next((int(line.split()[1]) for line in lines if line.split()[:1] == [_COUNTER]), 0)
        except (OSError, ValueError, IndexError):
            return 0


def _events(own: Path, root: Path) -> Path | None:
    try:
        entries = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    for _, controllers, group in (entry for entry in entries if len(entry) == 3):
        if "memory" in controllers.split(","):
            return root / "memory" / group.lstrip("/") / "memory.oom_control"
    whole = [group for _, controllers, group in (e for e in entries if len(e) == 3) if not controllers]
    return root / whole[0].lstrip("/") / "memory.events" if whole else None
