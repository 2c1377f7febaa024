"""Whether a worker in its first steps is at work: compiling takes minutes of processor time, a deadlock takes none.

A worker tells with its beats how much processor time it and its children (compilers) have used, as long as it is in
its first steps.
"""

from __future__ import annotations

import os
from pathlib import Path

from elastane.train.coordinator.worker_activity import Activity

FIRST_STEPS = 3
"""So many steps of a worker may take far longer than the usual: it compiles, or fills its caches."""
_LOOK_EVERY_S = 5.0
_LEAST_SHARE = 0.05
"""Of one processor: the threads that beat use far less, a compiler on a crowded machine far more."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class EarlyEffort:
    """The worker's side: what to tell with a beat."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._generation = 0

    def told(self, step: int, doing: Activity, generation: int) -> float | None:
        """Processor seconds, while they matter: with other members, steps are first ones again."""
        if generation != self._generation:
            self._generation, self._first = generation, None
        if self._first is None and doing is Activity.COMPUTING:
            self._first = step
        if self._first is None or doing is not Activity.COMPUTING or step - self._first >= FIRST_STEPS:
            return None
        return processor_seconds()


class Effort:
    """The coordinator's side: when a worker was last seen at work; seconds on the coordinator's clock."""

    def __init__(self) -> None:
        self.worked_s = 0.0
        self._first: int | None = None
        self._marked_s = self._marked_cpu_s = 0.0

    def hear(self, step: int, doing: Activity, cpu_s: float | None, now_s: float) -> None:
        """A beat has come."""
        if self._first is None and doing is Activity.COMPUTING:
            self._first, self.worked_s = step, now_s
        if cpu_s is None or now_s - self._marked_s < _LOOK_EVERY_S:
            return
        used_s = cpu_s - self._marked_cpu_s
        if self._marked_s and used_s >= _LEAST_SHARE * (now_s - self._marked_s):
            self.worked_s = now_s
        self._marked_s, self._marked_cpu_s = now_s, cpu_s

    def early(self, step: int) -> bool:
        """Whether the worker is in its first steps."""
        return self._first is None or step - self._first < FIRST_STEPS


def processor_seconds() -> float:
    """What this process and its children have used so far, living or dead."""
    return sum(_used_ticks(pid) for pid in _family(os.getpid())) / _TICKS_PER_S


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found, waiting = [], [pid]
    while waiting:
        found.append(current := waiting.pop())
        for listed in Path(f"/proc/{current}/task").glob("*/children"):
            waiting.extend(map(int, _text(listed).split()))
    return found


def _used_ticks(pid: int) -> int:
    """Own time and that of children it has waited for, in user and system mode (fields 14 to 17)."""
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has just ended
        return ""
