"""Max-min fairness over effective throughputs: one level for all (LAS), then water filling, flat or by entity.

    progress_j(X) = w_j · thr_j(X) / thr_j(X_eq)          X_eq: an n-th of every type for everybody

Least attained service maximises min_j progress_j / weight_j.  That leaves open what jobs above the minimum get; water
filling goes on: whoever cannot get more is frozen at what it has, and the level of the rest is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.gavel.centre import centred
from elastane.policies.gavel.linear import Lower, highest_level
from elastane.policies.gavel.objective import Objective, runnable
from elastane.policies.gavel.problem import BoolArray, Problem

_BINDS = 1e-9
_ROUNDING = 1e-6
_NOTHING = 1e-7

Weights = Callable[[BoolArray], FloatArray]
"""From who is still open to the weight of every job."""


def progress(problem: Problem) -> FloatArray:
    """Progress of job j per unit of X[j,τ]."""
    equal = problem.equal_share()
    equal = np.where(equal > 0.0, equal, 1.0)
    return problem.rates * (problem.width / equal)[:, None]


class MaxMinFairness(Objective):
    """Least attained service: the highest level that all jobs reach, each by its weight."""

    def shares(self, problem: Problem) -> FloatArray:
        """One linear program, then its centre."""
        merged, row = problem.merged("weight")
        gain = progress(merged) / merged.weight[:, None]
        level = runnable(merged)
        found = highest_level(merged, Lower(gain, level, np.zeros_like(level)))
        return centred(merged, found.x, gain, level * found.z)[row]


class WaterFilling(Objective):
    """Max-min fairness lexicographically: nobody can get more without somebody getting less who has no more."""

    def shares(self, problem: Problem) -> FloatArray:
        """A linear program per level."""
        merged, row = problem.merged("weight")
        return water_filled(merged, lambda _open: merged.weight)[row]


class Inner(Enum):
    """How an entity divides its weight over its own jobs."""

    FAIRNESS = "fairness"
    FIFO = "fifo"


@dataclass(frozen=True)
class Hierarchical(Objective):
    """Water filling where the weight of an entity is divided over those of its jobs that can still get more."""

    inner: Inner = Inner.FAIRNESS

    def shares(self, problem: Problem) -> FloatArray:
        """Water filling with weights that are derived anew at every level."""
        read = ("weight", "entity") if self.inner is Inner.FAIRNESS else ("entity", "rank")
        merged, row = problem.merged(*read)
        return water_filled(merged, lambda still: self._weights(merged, still))[row]

    def _weights(self, problem: Problem, still: BoolArray) -> FloatArray:
        if self.inner is Inner.FAIRNESS:
            own = np.where(still, problem.weight, 0.0)
        else:
            oldest = np.full(len(problem.entity_weight), np.inf)
            np.minimum.at(oldest, problem.entity[still], problem.rank[still])
            own = (still & (problem.rank == oldest[problem.entity])).astype(np.float64)
        total = np.bincount(problem.entity, weights=own * problem.count, minlength=len(problem.entity_weight))
        share = problem.entity_weight / np.where(total > 0.0, total, 1.0)
        return own * share[problem.entity]


def water_filled(problem: Problem, weights: Weights) -> FloatArray:
    """Raise the level of all who can get more until nobody can.

    Whoever's bound has a price (a positive dual) is at the level in every optimal solution, so it can get no more;
    there is always one, so this ends after as many programs as there are kinds of jobs at most.  Jobs that no level
    has reached yet are left out of the program.
    """
    gain = progress(problem)
    floor = np.zeros(len(gain))
    x = np.zeros_like(gain)
    still = runnable(problem) > 0.0
    while still.any():
        level = np.where(still, weights(still), 0.0)
        here = (level > 0.0) | (floor > 0.0)
        # Nobody falls behind what an earlier level gave; a hair less, or rounding would make it infeasible.
        least = Lower(gain[here], level[here], floor[here] * (1.0 - _ROUNDING))
        found = highest_level(problem.rows(here), least)
        x[here] = found.x
        raised = level > 0.0
        floor = np.where(raised, np.maximum(level * found.z, floor), floor)
        stuck = np.zeros(len(gain), dtype=bool)
        stuck[here] = found.duals > _BINDS * max(float(found.duals.max(initial=0.0)), 1e-300)
        if not (stuck & raised).any():
            stuck = raised
        if found.z <= _NOTHING:  # with every type that they could use scarce, the others get nothing either
            stuck |= (~problem.allowed | (found.prices > _BINDS)).all(axis=1)
        still = still & ~stuck
    return centred(problem, x, gain, floor)
