"""The engine of the genetic search: NSGA-II for two objectives, both maximised (Deb et al., IEEE TEC 2002).

Knows nothing about jobs: an individual is a pair of objective values, an answer is an array of indices.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray, IntArray


class Standing(NamedTuple):
    """The rank of individuals: the lower front wins, within a front the one with more distance from others."""

    front: IntArray
    distance: FloatArray

    def of(self, chosen: IntArray) -> Standing:
        """Returns the standing of the chosen individuals."""
        return Standing(self.front[chosen], self.distance[chosen])


def standing(objectives: FloatArray) -> Standing:
    """Front and crowding distance of every individual; ``objectives`` has shape (2, individuals)."""
    order = np.lexsort((-objectives[1], -objectives[0]))
    ranked = objectives[:, order]
    found = _fronts(ranked[0].tolist(), ranked[1].tolist())
    by_front = np.argsort(found, kind="stable")
    front, distance = np.empty_like(found), np.empty(len(found))
    front[order] = found
    distance[order[by_front]] = _crowding(ranked[:, by_front], found[by_front])
    return Standing(front, distance)


def _fronts(first: list[float], second: list[float]) -> IntArray:
    """Returns 0 for individuals that none dominates, 1 for those that only front 0 dominates, and so on.

    Sorted by falling objectives, one sweep is enough: an individual is dominated by a front exactly if that front
    has reached its second objective already.  What fronts have reached falls from one to the next, so the first
    that has not is found by bisection.
    """
    reached: list[float] = []  # negated, because bisection wants rising numbers
    found: list[int] = []
    last, front = (np.nan, np.nan), 0
    for pair in zip(first, second, strict=True):
        if pair != last:  # equals do not dominate each other
            last = pair
            front = bisect_right(reached, -pair[1])
            if front == len(reached):
                reached.append(0.0)
            reached[front] = -pair[1]
        found.append(front)
    return np.array(found, dtype=np.int64)


def _crowding(values: FloatArray, front: IntArray) -> FloatArray:
    """Distance between both neighbours in a front, for individuals sorted by front and by first objective.

    Of individuals with equal objectives all but one have distance 0, or copies would crowd out everything else.
    """
    starts, twin = np.ones(len(front), dtype=bool), np.zeros(len(front), dtype=bool)
    starts[1:] = front[1:] != front[:-1]
    twin[1:] = (values[:, 1:] == values[:, :-1]).all(axis=0) & ~starts[1:]
    distance = np.zeros(len(front))
    distance[~twin] = _gaps(values[:, ~twin], starts[~twin])
    return distance


def _gaps(values: FloatArray, starts: NDArray[np.bool_]) -> FloatArray:
    """Σ over objectives of the gap between neighbours ÷ the extent of the front; infinite at a front's ends."""
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(starts)) - 1
    extent = np.abs(values[:, last] - values[:, first])  # both objectives are monotone along a front
    extent[extent == 0.0] = 1.0
    scale = extent[:, np.cumsum(starts) - 1]
    gaps = np.zeros(len(starts))
    gaps[1:-1] = (np.abs(values[:, 2:] - values[:, :-2]) / scale[:, 1:-1]).sum(axis=0)
    gaps[first] = gaps[last] = np.inf
    return gaps


def survivors(stand: Standing, size: int) -> IntArray:
    """Selects the best ``size`` individuals: whole fronts first, of the last one those farthest from others."""
    return np.lexsort((-stand.distance, stand.front))[:size]


def tournament(stand: Standing, winners: int, rng: np.random.Generator) -> IntArray:
    """Each winner is the better of two drawn at random; where neither is, the first drawn."""
    one, two = (rng.random((2, winners)) * len(stand.front)).astype(np.int64)
    lower = stand.front[two] < stand.front[one]
    roomier = (stand.front[two] == stand.front[one]) & (stand.distance[two] > stand.distance[one])
    winner: IntArray = np.where(lower | roomier, two, one)
    return winner
