"""The budget limits how much state a donor's device copies at one boundary: a small part of each step.

The link between device and host is shared with the loader and the gradients: bulk goes over it a little at a time.
A parameter and its optimizer state go in one piece, so a boundary may copy more than its budget; those that follow
make up for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.05
"""Of a step's time may go into copying state for newcomers."""
LEAST_BYTES, FIRST_BYTES, MOST_BYTES = 1 << 20, 4 << 20, 64 << 20
"""Come to a boundary, whatever the measurements say; and before there are any."""
_NEWEST = 0.3
"""Weight of the latest measurement."""


class CopyBudget:
    """Bytes for the next boundary, from the time of steps and the speed of copies so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._boundary_s: float | None = None
        self._step_s: float | None = None
        self._bytes_per_s: float | None = None
        self._measured_bytes, self._measured_s = 0, 0.0
        self._left = 0

    def at_boundary(self) -> int:
        """Bytes that may be copied now, none if negative; called once per step."""
        self._left = min(self._left, 0) + self._share()
        return self._left

    def spend(self, nbytes: int) -> int:
        """So many bytes are copied; returns what is left."""
        self._left -= nbytes
        return self._left

    def _share(self) -> int:
        now = self._clock()
        if self._boundary_s is not None:
            self._step_s = _smoothed(self._step_s, now - self._boundary_s)
        self._boundary_s = now
        if self._step_s is None or self._bytes_per_s is None:
            return FIRST_BYTES
        return int(min(max(SHARE * self._step_s * self._bytes_per_s, LEAST_BYTES), MOST_BYTES))

    def copied(self, nbytes: int, seconds: float) -> None:
        """A copy of so many bytes took so long (told by another thread)."""
        self._measured_bytes += nbytes
        self._measured_s += seconds
        if self._measured_bytes >= LEAST_BYTES and self._measured_s > 0.0:  # less would tell of one beginning
            self._bytes_per_s = _smoothed(self._bytes_per_s, self._measured_bytes / self._measured_s)
            self._measured_bytes, self._measured_s = 0, 0.0


def _smoothed(old: float | None, new: float) -> float:
    return new if old is None else old + _NEWEST * (new - old)
