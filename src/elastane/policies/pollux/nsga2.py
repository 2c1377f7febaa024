"""The engine of the genetic search: NSGA-II for two objectives, both maximised (Deb et al., IEEE TEC 2002).

Knows nothing about jobs: an individual is a pair of objective values, an answer is an array of indices.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray, IntArray


class Standing(NamedTuple):
    """How individuals compare: a lower front wins, within a front the less crowded one."""

    front: IntArray
    crowding: FloatArray

    def of(self, chosen: IntArray) -> Standing:
        """The standing of some of them."""
        return Standing(self.front[chosen], self.crowding[chosen])


def standing(objectives: FloatArray) -> Standing:
    """Front and crowding distance of every individual; ``objectives`` has shape (2, individuals)."""
    front = fronts(objectives)
    return Standing(front, crowding(objectives, front))


def fronts(objectives: FloatArray) -> IntArray:
    """0 for individuals nobody dominates, 1 for those that only front 0 dominates, and so on.

    With two objectives one sweep is enough: going down the first objective, an individual is dominated by a
    front exactly if that front has already reached its second objective; fronts have falling second objectives,
    so the first front that has not is found by bisection.
    """
    order = np.lexsort((-objectives[1], -objectives[0]))
    first, second = objectives[0][order].tolist(), (-objectives[1][order]).tolist()
    reached: list[float] = []  # best (negated, hence rising) second objective of each front
    found = [0] * len(first)
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        if i and a == first[i - 1] and b == second[i - 1]:
            found[i] = found[i - 1]  # equals do not dominate each other
            continue
        front = _first_above(reached, b)
        found[i] = front
        if front == len(reached):
            reached.append(b)
        else:
            reached[front] = b
    out = np.empty(len(first), dtype=np.int64)
    out[order] = found
    return out


def _first_above(reached: list[float], value: float) -> int:
    """Index of the first entry that is strictly worse (greater) than ``value``."""
    at = bisect_left(reached, value)
    return at + 1 if at < len(reached) and reached[at] == value else at


def crowding(objectives: FloatArray, front: IntArray) -> FloatArray:
    """Distance between the two neighbours in a front, each objective scaled by the front's range.

    Ends of a front are infinitely far from the crowd.  Of individuals with equal objectives one is kept apart
    from the crowd, the others have distance 0, or copies would crowd out everything else.
    """
    order = np.lexsort((objectives[1], objectives[0], front))
    ranked, values = front[order], objectives[:, order]
    new_front = np.diff(ranked, prepend=-1) != 0
    twin = ~new_front
    twin[1:] &= (values[:, 1:] == values[:, :-1]).all(axis=0)
    distance = np.zeros(len(order))
    distance[order[~twin]] = _gaps(values[:, ~twin], new_front[~twin])
    return distance


def _gaps(values: FloatArray, starts: NDArray[np.bool_]) -> FloatArray:
    """Scaled distance from left to right neighbour, for individuals sorted by front and first objective."""
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(starts)) - 1
    extent = np.abs(values[:, last] - values[:, first])  # both objectives are monotone along a front
    scale = np.repeat(np.where(extent > 0.0, extent, 1.0), last - first + 1, axis=1)
    gaps = np.zeros(len(starts))
    gaps[1:-1] = (np.abs(values[:, 2:] - values[:, :-2]) / scale[:, 1:-1]).sum(axis=0)
    gaps[first] = gaps[last] = np.inf
    return gaps


def survivors(stand: Standing, size: int) -> IntArray:
    """The best ``size`` individuals: whole fronts first, of the last one those with most room around them."""
    return np.lexsort((-stand.crowding, stand.front))[:size]


def tournament(stand: Standing, winners: int, rng: np.random.Generator) -> IntArray:
    """Each winner is the better of two drawn at random; where neither is, the first drawn."""
    one, two = rng.integers(0, len(stand.front), size=(2, winners))
    lower = stand.front[two] < stand.front[one]
    roomier = (stand.front[two] == stand.front[one]) & (stand.crowding[two] > stand.crowding[one])
    return np.where(lower | roomier, two, one)
