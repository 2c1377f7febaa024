"""Startup notices say why nothing can be seen yet (workers start, compile or warm up): after 10 s, 20 s, 40 s, …"""

from __future__ import annotations

from typing import Protocol

from elastane.train.coordinator.membership_plan import Plan
from elastane.train.reports.events import Warming

FIRST_WORD_S = 10.0


class Watched(Protocol):
    """The part of a coordinator that is looked at."""

    @property
    def current(self) -> Plan | None:
        """Who trains; None before the first start."""
        ...

    def first_steps(self, now_s: float) -> tuple[str, float] | None:
        """Who has been longest in one of its first steps, and for how many seconds."""
        ...


class WarmingWatch:
    """Looks now and then; each stretch of waiting is told at twice the length of the last time."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._stretch = ("", "")
        self._next_s = FIRST_WORD_S

    def look(self, job: Watched, now_s: float, wall_s: float) -> Warming | None:
        """What to say now, if anything; ``wall_s`` is the same moment in Unix time."""
        starting = job.current is None
        found = ("", now_s - self._began_s) if starting else job.first_steps(now_s)
        worker, for_s = found if found is not None else ("", 0.0)
        stretch = ("starting" if starting else "first steps", worker)
        if stretch != self._stretch or for_s < FIRST_WORD_S:
            self._stretch, self._next_s = stretch, FIRST_WORD_S
        if for_s < self._next_s:
            return None
        self._next_s = 2 * for_s
        return Warming(wall_s, worker, for_s)
