"""Represents uncertain quantities: the middle (p50) and the borders of nine cases in ten.

Every prediction of this room is an ``Interval`` or says why there is none (``Unknown``); nothing is a bare number.
Sums and multiples keep errors fully correlated, because the parts of one run share their causes of error (the same
device, the same fitted model): independent errors would make long runs look far more certain than they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from elastane.errors import ElastaneError

Z90 = 1.6448536269514722
"""Standard deviations between the middle and the border of a 90 % interval."""
_Z80_QUANTILE = 0.8416212335729143


@dataclass(frozen=True, slots=True)
class Interval:
    """Middle (p50) with the 5 % and 95 % quantiles; ``low <= middle <= high``, none negative."""

    low: float
    middle: float
    high: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.middle <= self.high < math.inf:
            raise ElastaneError(f"not an interval: {self.low} to {self.high} around {self.middle}")

    @classmethod
    def around(cls, middle: float, log_sd: float) -> Interval:
        """Makes a log-normal interval: errors of predicted times are factors, not differences."""
        factor = math.exp(min(Z90 * log_sd, 50.0))
        return cls(middle / factor, middle, middle * factor)

    @classmethod
    def exactly(cls, value: float) -> Interval:
        """Makes an interval without uncertainty."""
        return cls(value, value, value)

    @property
    def booking(self) -> float:
        """The value to reserve (p80): jobs are killed for asking too little, not for asking a bit too much."""
        if self.middle <= 0.0:
            return self.high
        return float(self.middle * (self.high / self.middle) ** (_Z80_QUANTILE / Z90))

    @property
    def p50(self) -> float:
        """The middle of the interval, by its statistical name."""
        return self.middle

    def interval(self, share: float = 0.9) -> tuple[float, float]:
        """Returns the borders of another share of cases than nine in ten, by a log-normal to either side."""
        if not 0.0 < share < 1.0:
            raise ElastaneError(f"a share of cases lies between 0 and 1, not at {share}")
        if self.low <= 0.0:
            return self.low, self.high
        wider = NormalDist().inv_cdf(0.5 + share / 2.0) / Z90
        return self.middle * (self.low / self.middle) ** wider, self.middle * (self.high / self.middle) ** wider

    def scaled(self, factor: float) -> Interval:
        """Multiplies the interval by a factor."""
        return Interval(self.low * factor, self.middle * factor, self.high * factor)

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.middle + other.middle, self.high + other.high)

    def widened(self, factor: float) -> Interval:
        """Moves both borders away from the middle by a factor."""
        return Interval(self.low / factor, self.middle, self.high * factor)

    def covers(self, value: float) -> bool:
        """Tells whether a value lies within the borders."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for a quantity that cannot be predicted; ``reason`` completes "unknown, because …"."""

    reason: str

    def __str__(self) -> str:
        return f"unknown, because {self.reason}"
