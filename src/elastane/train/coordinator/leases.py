"""Says when silence on a line means a loss: how often the other side beats, how long it may not, on whose clock.

Anything that is read counts as a sign of life.  The clock is the reader's, and stands still while the reader itself
did not run (it was suspended, or starved by others): what was sent to it meanwhile lies unread in its sockets, and
whoever could not listen must not blame those who spoke.
"""

from __future__ import annotations

import time
from collections.abc import Callable

BEAT_S = 1.0
"""How often a fork server or an agent says that it is there."""
LEASE_S = 6.0
"""How long it may be silent, unless somebody has chosen another lease."""
LATE_S = 1.0
"""A reader that looks at its clock less often than this was not running."""


def fork_server_lease_s(worker_lease_s: float) -> float:
    """A beat shorter than that of workers: of a frozen node the node is lost, not one worker after the other.

    >>> fork_server_lease_s(6.0), fork_server_lease_s(0.5)
    (5.0, 3.0)
    """
    return max(3 * BEAT_S, worker_lease_s - BEAT_S)


class AwakeClock:
    """Seconds during which this process ran; to be read several times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_s = clock()
        self._slept_s = 0.0

    def now_s(self) -> float:
        """Never goes back; a gap since the last look counts as one moment."""
        now_s = self._clock()
        if now_s - self._last_s > LATE_S:
            self._slept_s += now_s - self._last_s
        self._last_s = now_s
        return now_s - self._slept_s
