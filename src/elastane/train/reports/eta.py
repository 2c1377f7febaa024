"""Estimates the time left of a run from the fraction that is done and how fast it grew lately."""

from __future__ import annotations

from collections import deque

from elastane.train.reports.events import Event, Resized, Started, Stepped
from elastane.train.reports.wording import finite

LEAST_S = 3.0
"""Seconds of data below which no estimate is made."""

RECENT_S = 30.0
"""Seconds over which the rate is measured; less since the last change of workers."""


class Eta:
    """Takes in events and estimates how many seconds are left."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque()

    def observe(self, event: Event) -> None:
        """Takes in an event; a change of workers means another rate, so older data is dropped."""
        if isinstance(event, Started | Resized):
            self._points.clear()
        elif isinstance(event, Stepped) and (fraction := finite(event.fraction)) is not None:
            self._add(event.at_s, fraction)

    @property
    def remaining_s(self) -> float | None:
        """Seconds left as of the last event; None if there is too little data yet."""
        if not self._points:
            return None
        (start_s, before), (now_s, done) = self._points[0], self._points[-1]
        if now_s - start_s < LEAST_S or done <= before:
            return None
        return max(0.0, 1.0 - done) * (now_s - start_s) / (done - before)

    def _add(self, at_s: float, fraction: float) -> None:
        if self._points and (fraction < self._points[-1][1] or at_s < self._points[-1][0]):
            self._points.clear()  # work was lost, or the clock was set back
        self._points.append((at_s, fraction))
        while len(self._points) > 2 and at_s - self._points[1][0] >= RECENT_S:
            self._points.popleft()
