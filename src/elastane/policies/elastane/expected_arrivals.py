"""How many jobs are still to come: clusters have days, and what was there at the busiest hour will be there again.

Long jobs are worth more to all the more jobs will come before they have finished: the whole cluster will not be theirs
as soon as it seems at a quiet hour.  Where it once was crowded, GPUs are left less to one job after another at the end
of the day, which costs little of the mean and saves some of the makespan.  Where jobs were few for the GPUs there are,
those to come find room beside the long ones, and count the less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_HALF_LIFE_S = 3 * 86_400.0
"""A peak counts half after so long."""
_PART = 0.095
"""Of the jobs there were at the busiest time, so many are reckoned with."""
_CROWDED = 0.2
"""With fewer jobs per GPU than this, those to come find room, and count the less."""
_MOST = 4.0
"""More are not reckoned with, however crowded it was."""


@dataclass(frozen=True)
class Coming:
    """The most jobs that were at hand at once; the longer ago, the less it counts."""

    peak: float = 0.0
    at_s: float = 0.0

    @classmethod
    def of(cls, memory: Any) -> Coming:
        """From what the last plan left in the policy's memory."""
        known = memory.get("coming") if isinstance(memory, dict) else None
        return cls(*(float(value) for value in known)) if known else cls()

    def memory(self) -> dict[str, Any]:
        """Returns the state to keep in the plan's memory, as JSON values."""
        return {"coming": [self.peak, self.at_s]}

    def with_jobs(self, count: int, now_s: float) -> Coming:
        """At this moment, with so many jobs at hand."""
        passed_s = max(now_s - self.at_s, 0.0)
        return Coming(max(self.peak * 0.5 ** (passed_s / _HALF_LIFE_S), float(count)), now_s)

    def jobs(self, gpus: int) -> float:
        """Jobs to reckon with on so many GPUs, besides those at hand."""
        crowded = min(self.peak / max(_CROWDED * gpus, 1.0), 1.0)
        return min(_PART * self.peak * crowded, _MOST)
