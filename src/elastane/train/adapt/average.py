"""A moving average that is right from its first value on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from elastane.train.errors import TrainError


@dataclass(frozen=True, slots=True)
class MovingAverage:
    """``total`` and ``weight`` are sums over the same weights: their quotient has no start-up bias."""

    memory: float
    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float) -> MovingAverage:
        """The average after one more value; one that is not finite changes nothing."""
        if not math.isfinite(value):
            return self
        new = 1.0 - self.memory
        return replace(
            self, total=self.memory * self.total + new * value, weight=self.memory * self.weight + new
        )

    @property
    def value(self) -> float | None:
        """The average; None before the first value."""
        return self.total / self.weight if self.weight > 0.0 else None

    def to_dict(self) -> dict[str, float]:
        """The state as JSON values."""
        return {"total": self.total, "weight": self.weight}

    def restored(self, state: Mapping[str, float]) -> MovingAverage:
        """This average with a saved state."""
        try:
            return replace(self, total=float(state["total"]), weight=float(state["weight"]))
        except (KeyError, TypeError, ValueError) as error:
            raise TrainError(f"this is not a saved moving average: {error!r}") from error
