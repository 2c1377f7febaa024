"""Ends a node that nobody uses: a machine that was lent for a while, as by Slurm, shall not be held for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from elastane.train.coordinator.leases import AwakeClock

_LOOK_S = 0.5


class Idleness:
    """How long nothing has worked here, by looks at it."""

    def __init__(self, enough_s: float, now_s: float) -> None:
        self._enough_s, self._since_s = enough_s, now_s

    def look(self, *, busy: bool, now_s: float) -> bool:
        """Whether nothing has worked here for long enough."""
        if busy:
            self._since_s = now_s
        return now_s - self._since_s >= self._enough_s


async def until_idle(enough_s: float, busy: Callable[[], bool]) -> None:
    """Return when a node has not been busy for so long; 0 is never."""
    clock = AwakeClock()
    idleness = Idleness(enough_s, clock.now_s())
    while enough_s <= 0 or not idleness.look(busy=busy(), now_s=clock.now_s()):
        await asyncio.sleep(_LOOK_S)
