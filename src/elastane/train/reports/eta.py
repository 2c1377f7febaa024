"""How long a run will still take, from the share of it that is done and how fast that share grew lately."""

from __future__ import annotations

from collections import deque

from elastane.train.reports.events import Event, Resized, Started, Stepped
from elastane.train.reports.wording import finite

LEAST_S = 3.0
"""Nothing is said before there is as much data as this."""

RECENT_S = 30.0
"""How far back the rate looks, or to the last change of workers if that is later."""


class Eta:
    """Takes in events, and says how many seconds are left."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque()

    def observe(self, event: Event) -> None:
        """Take in an event; other workers mean another rate, so older data says nothing any more."""
        if isinstance(event, Started | Resized):
            self._points.clear()
        elif isinstance(event, Stepped) and (fraction := finite(event.fraction)) is not None:
            self._add(event.at_s, fraction)

    @property
    def remaining_s(self) -> float | None:
        """Seconds left as of the last event, or None if nothing can be said yet."""
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
