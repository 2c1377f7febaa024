"""Detects lasting changes of a training's speed: cuts a session into a few regimes of even speed.

The cuts minimise the squares of log speeds around the means of their regimes plus a price for every cut (optimal
partitioning).  The price rises with the noise, so an uneven but unchanged speed is not cut up.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from elastane.models.speed import FloatArray

_BLOCKS = 256
_LEAST_BLOCKS = 4
_LEAST_CHANGE = 0.15
"""Change of log speed below which it is the scatter of one regime."""
_SURE = 25.0
"""Price of a cut in variances of the noise."""
_SMOOTH = 5
"""Blocks over which a running median is taken, so that a stall or two make no regime."""


def cuts_of(seconds: FloatArray, work: FloatArray) -> list[int]:
    """Returns the indices at which a new regime begins, in order."""
    edges = np.unique(np.linspace(0, len(work), min(_BLOCKS, len(work)) + 1).astype(int))
    if len(edges) <= 2 * _LEAST_BLOCKS:
        return []
    logs = np.log(seconds / work)
    if len(logs) > _BLOCKS:
        logs = np.array([np.median(logs[a:b]) for a, b in pairwise(edges)])
    smooth = _smoothed(logs)
    if np.ptp(smooth) <= _LEAST_CHANGE:
        return []
    # Smoothing would hide the noise, so its size is taken before.
    noise = 1.4826 * float(np.median(np.abs(np.diff(logs)))) / math.sqrt(2.0)
    price = max(_LEAST_CHANGE**2 * _LEAST_BLOCKS, _SURE * noise**2)
    return [int(edges[place]) for place in _lasting(smooth, _partition(smooth, price))]


def _smoothed(logs: FloatArray) -> FloatArray:
    padded = np.pad(logs, _SMOOTH // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, _SMOOTH), axis=1)


def _partition(logs: FloatArray, price: float) -> list[int]:
    """Finds the cheapest cuts by dynamic programming over all beginnings."""
    count = len(logs)
    sums, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (logs, logs**2))
    cheapest, came_from = np.full(count + 1, np.inf), np.zeros(count + 1, int)
    cheapest[0] = -price
    for end in range(_LEAST_BLOCKS, count + 1):
        starts = np.arange(0, end - _LEAST_BLOCKS + 1)
        around_mean = squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / (end - starts)
        costs = cheapest[starts] + np.maximum(around_mean, 0.0) + price
        best = int(np.argmin(costs))
        cheapest[end], came_from[end] = costs[best], starts[best]
    cuts, place = [], int(came_from[count])
    while place > 0:
        cuts.append(place)
        place = int(came_from[place])
    return cuts[::-1]


def _lasting(logs: FloatArray, cuts: list[int]) -> list[int]:
    """Drops cuts between regimes that hardly differ."""
    kept: list[int] = []
    for place, after in zip(cuts, [*cuts, len(logs)][1:], strict=True):
        before = logs[kept[-1] if kept else 0 : place]
        if abs(float(np.median(before) - np.median(logs[place:after]))) > _LEAST_CHANGE:
            kept.append(place)
    return kept
