"""Defines the rule by which a training stops before its budget is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.errors import ElastaneError
from elastane.models.speed import FloatArray


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """Ends a training when its measure reaches ``target``, or was not better for ``patience`` validations in a row."""

    target: float | None = None
    patience: int | None = None
    least_change: float = 0.0
    rising: bool = False
    """Whether more is better, as with accuracy."""

    def __post_init__(self) -> None:
        if self.target is None and self.patience is None:
            raise ElastaneError("early stopping needs a target or a patience")
        if self.target is not None and not math.isfinite(self.target):
            raise ElastaneError(f"the target must be a number, not {self.target}")
        if self.patience is not None and self.patience < 1:
            raise ElastaneError(f"the patience must be 1 or more, not {self.patience}")

    def ends(self, seen: FloatArray, ahead: FloatArray) -> FloatArray:
        """Returns how many points after ``seen`` each row of ``ahead`` ends; infinite where it does not.

        Smaller values are better, see ``losses``.
        """
        found = np.full(len(ahead), math.inf)
        best, since = np.full(len(ahead), seen.min()), np.full(len(ahead), _since_best(seen, self.least_change))
        goal = -math.inf if self.target is None else self._as_loss(self.target)
        for place in range(ahead.shape[1]):
            better = ahead[:, place] < best - self.least_change
            best, since = np.where(better, ahead[:, place], best), np.where(better, 0, since + 1)
            over = ahead[:, place] <= goal
            if self.patience is not None:
                over |= since >= self.patience
            found = np.where(over & ~np.isfinite(found), place + 1.0, found)
        return found

    def least(self, seen: FloatArray) -> int:
        """Returns the least number of points until patience can run out."""
        return 1 if self.patience is None else max(self.patience - _since_best(seen, self.least_change), 1)

    def losses(self, values: Sequence[float]) -> FloatArray:
        """Returns the values with a sign such that less is better."""
        return np.array([self._as_loss(each) for each in values], np.float64)

    def _as_loss(self, value: float) -> float:
        return -value if self.rising else value


def _since_best(seen: FloatArray, least_change: float) -> int:
    best, since = math.inf, 0
    for value in seen:
        best, since = (float(value), 0) if value < best - least_change else (best, since + 1)
    return since
