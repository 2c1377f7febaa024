"""Finds minimum satisfactory shares by progressive filling: the fewest GPUs, slot by slot, that meet a deadline.

=========  ================================================================
symbol     meaning
=========  ================================================================
F[t]       GPUs still free in slot t
ℓ          level: the most GPUs the job may have in any slot
x[t]       GPUs of the job in slot t, at most ℓ and F[t]
=========  ================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.elasticflow.curves import HasCurve

_ENOUGH = 1.0 - 1e-9


@dataclass(frozen=True)
class Slots:
    """Time from now on in equal slots."""

    length_s: float
    number: int

    @classmethod
    def until(cls, horizon_s: float, length_s: float, most: int) -> Slots:
        """Returns slots that reach the horizon; they are longer where there would be more than ``most``."""
        length_s = max(length_s, horizon_s / most)
        return cls(length_s, max(int(np.ceil(horizon_s / length_s - 1e-9)), 1))

    def seconds_before(self, deadline_s: float) -> FloatArray:
        """Returns the seconds of every slot that lie before a deadline, counted from now."""
        starts = np.arange(self.number) * self.length_s
        out: FloatArray = np.clip(deadline_s - starts, 0.0, self.length_s)
        return out


def minimum_share(curve: HasCurve, seconds: FloatArray, free: IntArray) -> IntArray | None:
    """Returns x for the lowest level that does the work in time; None if no level does.

    Latest slots are filled at that level, earlier ones at the level below, so GPUs that are needed late are free now.
    """
    below = np.zeros(len(free), dtype=np.int64)
    for level in range(len(curve.sizes)):
        full = _filled(curve, level, free)
        if _done(curve, full, seconds) >= curve.work * _ENOUGH:
            return _trimmed(curve, below, full, seconds)
        below = full
    return None


def _filled(curve: HasCurve, level: int, free: IntArray) -> IntArray:
    """Returns the largest allowed size of at most the level in every slot, 0 where not even the smallest is free."""
    sizes = np.array((0, *curve.sizes[: level + 1]), dtype=np.int64)
    out: IntArray = sizes[np.searchsorted(sizes, free, side="right") - 1]
    return out


def _done(curve: HasCurve, x: IntArray, seconds: FloatArray) -> float:
    return float((_rates(curve, x) * seconds).sum())


def _rates(curve: HasCurve, x: IntArray) -> FloatArray:
    sizes = np.array((0, *curve.sizes))
    out: FloatArray = np.concatenate([[0.0], curve.rates])[np.searchsorted(sizes, x)]
    return out


def _trimmed(curve: HasCurve, below: IntArray, full: IntArray, seconds: FloatArray) -> IntArray:
    """Raises slots from the level below to this one, the latest first, until the work is done."""
    low, high = _rates(curve, below) * seconds, _rates(curve, full) * seconds
    gained = np.cumsum((high - low)[::-1])
    missing = curve.work * _ENOUGH - float(low.sum())
    raised = int(np.searchsorted(gained, missing)) + 1 if missing > 0.0 else 0
    x = below.copy()
    if raised:
        x[len(x) - min(raised, len(x)) :] = full[len(x) - min(raised, len(x)) :]
    x[seconds <= 0.0] = 0
    # A size may be slower than one below it; then this is no cheaper way, but the full level is known to do.
    return x if _done(curve, x, seconds) >= curve.work * _ENOUGH else np.where(seconds > 0.0, full, 0)
