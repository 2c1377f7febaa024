"""A job's speed-up curve as a small chart: measured points full, predicted ones shaded, the chosen one marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastane.service.messages import CurvePoint

_WIDTH = 24
_MOST = 10
"""Lines of a chart; a longer curve keeps its ends, its doublings and the chosen point."""


def chart(points: Sequence[CurvePoint]) -> list[str]:
    """The lines of the chart, or none without a curve."""
    kept = _kept(
        sorted((each for each in points if math.isfinite(each.speedup)), key=lambda each: each.workers)
    )
    if not kept:
        return []
    most = max(each.speedup for each in kept)
    digits = len(str(kept[-1].workers))
    legend = "speed-up by workers: █ measured, ░ predicted, ► chosen"
    return [legend, *(_line(each, most, digits) for each in kept)]


def _line(point: CurvePoint, most: float, digits: int) -> str:
    length = max(1, round(_WIDTH * point.speedup / most)) if most > 0 else 1
    bar = ("█" if point.measured else "░") * length
    return f"{'►' if point.chosen else ' '} {point.workers:>{digits}}  {bar:<{_WIDTH}}  {point.speedup:.2f}×"


def _kept(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    if len(points) <= _MOST:
        return list(points)
    ends = {points[0].workers, points[-1].workers}
    return [
        each for each in points if each.chosen or each.workers in ends or each.workers & (each.workers - 1) == 0
    ]
