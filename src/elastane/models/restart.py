"""Learns the restart time of a job, the pause that a move costs, from the pauses measured so far.

It is a property of the job alone: neither GPUs, nodes nor batch enter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from elastane.errors import ElastaneError
from elastane.models.estimate import Estimate, Provenance
from elastane.models.speed import FloatArray

DEFAULT_RESTART_S = 30.0
"""Restart time that Pollux assumes of every job (OSDI 2021, section 4.2)."""

_WINDOW = 16
_PRIOR_RELATIVE_STD = 0.5
_CLIP_SPREADS = 3.0
_LEAST_SPREAD = 0.1  # of the median, so that equal pauses do not make every other pause an outlier
_MAD_TO_STD = 1.4826


@dataclass(frozen=True, slots=True)
class RestartCost:
    """The pause of one job's next restart: a prior at first, then a robust mean of its latest pauses.

    The prior counts as one pause until the window is full, so that one odd first pause does not rule.
    """

    prior_s: float = DEFAULT_RESTART_S
    declared: bool = False
    pauses_s: tuple[float, ...] = ()
    count: int = 0

    @classmethod
    def of(cls, declared_s: float | None = None) -> RestartCost:
        """Starts from the seconds that the owner declared, or from the default."""
        if declared_s is None:
            return cls()
        if not 0.0 <= declared_s < float("inf"):
            raise ElastaneError(f"restart seconds must be 0 or more and finite, not {declared_s}")
        return cls(declared_s, declared=True)

    def observe(self, pause_s: float) -> RestartCost:
        """Takes in a measured pause, from the last step before a move to the first step after it."""
        if not 0.0 <= pause_s < float("inf"):
            raise ValueError(f"a pause is a finite number of seconds, not {pause_s}")
        return replace(self, pauses_s=(*self.pauses_s, pause_s)[-_WINDOW:], count=self.count + 1)

    def estimate(self) -> Estimate:
        """Seconds of the next pause; ``std`` is the spread to expect of that pause, not of the mean."""
        if not self.pauses_s:
            source = Provenance.DECLARED if self.declared else Provenance.PRIOR
            return Estimate(self.prior_s, _PRIOR_RELATIVE_STD * self.prior_s, 0, source)
        full = len(self.pauses_s) == _WINDOW
        values = _clipped(np.array(self.pauses_s if full else (self.prior_s, *self.pauses_s)))
        spread = float(values.std(ddof=1)) * (1.0 + 1.0 / len(values)) ** 0.5
        return Estimate(float(values.mean()), spread, self.count, Provenance.PROFILED)


def _clipped(values: FloatArray) -> FloatArray:
    """Values pulled to within three robust spreads of their median."""
    centre = float(np.median(values))
    spread = _MAD_TO_STD * float(np.median(np.abs(values - centre)))
    reach = _CLIP_SPREADS * max(spread, _LEAST_SPREAD * centre)
    return np.clip(values, centre - reach, centre + reach)


def realloc_factor(delta_s: ArrayLike, age_s: ArrayLike, restarts: ArrayLike) -> FloatArray:
    """Pollux's discount on the speed-up of an allocation that differs from the present one.

    realloc(δ) = max(T − R·δ, 0) / (T + δ), with T the age in seconds, R the restarts so far, δ the seconds
    of one restart (OSDI 2021, section 4.2.1).  All three broadcast.  A free restart (δ = 0) costs nothing.
    """
    delta, age, number = (np.asarray(value, dtype=np.float64) for value in (delta_s, age_s, restarts))
    useful, wall = np.broadcast_arrays(np.maximum(age - number * delta, 0.0), age + delta)
    factor: FloatArray = np.divide(useful, wall, out=np.ones(wall.shape), where=wall > 0.0)
    return factor
