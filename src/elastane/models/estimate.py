"""A number with its uncertainty and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Provenance(Enum):
    """How a figure came to be known, from least to most trustworthy; ``ORACLE`` is the simulator's truth."""

    PRIOR = "prior"
    DECLARED = "declared"
    HISTORY = "history"
    PROFILED = "profiled"
    FITTED = "fitted"
    ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Estimate:
    """``mean`` ± ``std`` from ``count`` observations."""

    mean: float
    std: float = 0.0
    count: int = 0
    source: Provenance = Provenance.PRIOR

    def interval(self, z: float = 1.645) -> tuple[float, float]:
        """A two-sided interval, 90 % by default if the error is normal."""
        return self.mean - z * self.std, self.mean + z * self.std
