"""When a job will be done, as a range; and what more or fewer workers would do for it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from elastane.cluster import Node
from elastane.service.learning import Learned
from elastane.service.messages import CurvePoint, Eta

_LEAST_WINDOWS = 3
_LEAST_PROGRESS = 1e-9
"""Part of the whole; less is only the rounding of numbers."""
_FLOOR = 0.05
"""The range is never narrower than this part of the time left: paces change."""


def end_of(learned: Learned, now_s: float, running: bool) -> Eta | None:
    """From the pace of the latest windows; None (or a reason) when nothing can be said."""
    fraction = learned.fraction
    if fraction is None:
        return Eta(basis="unknown: the job does not say how much there is to do") if running else None
    if not running:
        return Eta(basis="unknown while it waits")
    windows = learned.fractions
    if len(windows) < _LEAST_WINDOWS:
        return Eta(basis="unknown: too little was seen since the last change")
    times = np.array([at for at, _ in windows])
    parts = np.array([part for _, part in windows])
    slope, _ = np.polyfit(times - times[0], parts, 1)
    if slope * (times[-1] - times[0]) < _LEAST_PROGRESS:
        return Eta(basis="unknown: it makes no progress")
    errors = parts - np.polyval(np.polyfit(times - times[0], parts, 1), times - times[0])
    spread = float(np.std(errors)) / max(float(np.std(times)) * math.sqrt(len(times)), 1e-9)
    doubt = max(_FLOOR, 2.0 * spread / float(slope), 1.0 / len(windows))
    left_s, seen_s = (1.0 - fraction) / float(slope), float(times[-1])
    return Eta(
        low_s=max(now_s, seen_s + left_s / (1.0 + doubt)),
        mid_s=max(now_s, seen_s + left_s),
        high_s=max(now_s, seen_s + left_s * (1.0 + doubt)),
        basis=f"pace of the last {len(windows)} s of training",
    )


def curve_of(learned: Learned, nodes: Mapping[str, Node], most: int, chosen: int) -> list[CurvePoint]:
    """Goodput by workers relative to one, on as few nodes as possible."""
    sizes = sorted((node.gpus for node in nodes.values()), reverse=True)
    accelerator = next((node.gpu_type for node in nodes.values()), "cpu")
    model = learned.speed(accelerator)
    if model is None or not sizes:
        return []
    rates = {}
    for workers in range(1, max(1, min(most, sum(sizes), model.limits.max_workers)) + 1):
        rate, _ = model.best_of(_nodes_for(workers, sizes), workers, accelerator)
        rates[workers] = float(rate)
    if not rates.get(1):
        return []
    return [
        CurvePoint(workers=n, speedup=rate / rates[1], measured=n in learned.measured, chosen=n == chosen)
        for n, rate in rates.items()
    ]


def _nodes_for(workers: int, sizes: list[int]) -> int:
    for count in range(1, len(sizes) + 1):
        if sum(sizes[:count]) >= workers:
            return count
    return len(sizes)
