"""Estimates future arrivals from a decaying peak of the number of unfinished jobs: yesterday's rush comes again.

The price of a long job's work rises with the jobs that will arrive before it has finished, because it will not get the
whole cluster as soon as a quiet hour suggests.  On a cluster that was crowded this keeps jobs from running one after
another at the end of the day, which costs little of the mean completion time and saves some of the makespan.  Where
jobs were few for the GPUs there are, arrivals find room beside the long ones and count less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_HALF_LIFE_S = 3 * 86_400.0
"""Seconds after which a peak counts half."""
_PART = 0.095
"""Expected arrivals as a fraction of the peak."""
_CROWDED = 0.2
"""Jobs per GPU at the peak below which arrivals count less, in proportion."""
_MOST = 4.0
"""Expected arrivals at most, whatever the peak was."""


@dataclass(frozen=True)
class RecentPeak:
    """The decayed peak number of unfinished jobs, as of ``at_s``."""

    peak: float = 0.0
    at_s: float = 0.0

    @classmethod
    def of(cls, memory: Any) -> RecentPeak:
        """Reads the state back from the policy's memory; starts at 0 without one."""
        known = memory.get("coming") if isinstance(memory, dict) else None
        return cls(*(float(value) for value in known)) if known else cls()

    def memory(self) -> dict[str, Any]:
        """Returns the state to keep in the plan's memory, as JSON values."""
        return {"coming": [self.peak, self.at_s]}

    def with_jobs(self, count: int, now_s: float) -> RecentPeak:
        """Returns the state at ``now_s``, when ``count`` jobs are unfinished."""
        passed_s = max(now_s - self.at_s, 0.0)
        return RecentPeak(max(self.peak * 0.5 ** (passed_s / _HALF_LIFE_S), float(count)), now_s)

    def jobs(self, gpus: int) -> float:
        """Returns how many future arrivals to assume on a cluster of this many GPUs."""
        crowded = min(self.peak / max(_CROWDED * gpus, 1.0), 1.0)
        return min(_PART * self.peak * crowded, _MOST)
