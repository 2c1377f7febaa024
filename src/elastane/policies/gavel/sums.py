"""Objectives that are sums over jobs: total throughput, cost with deadlines, and arrival order."""

from __future__ import annotations

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.gavel.linear import Lower, highest_level, most_value
from elastane.policies.gavel.objective import Objective, runnable
from elastane.policies.gavel.problem import Problem

_MOST_PROGRAMS = 30
_SAME = 1e-9
_WORTH = 1e-6
"""Relative differences that decide nothing, but are more than rounding in a linear program."""


class MaxThroughput(Objective):
    """Maximises the total throughput Σ_j thr_j(X)."""

    def shares(self, problem: Problem) -> FloatArray:
        """Solves one linear program for the largest sum."""
        merged, row = problem.merged()
        return most_value(merged, merged.rates).x[row]


class Fifo(Objective):
    """The largest Σ_j (n − rank_j)·thr_j(X)/thr_j(fastest): earlier jobs weigh more."""

    fills = False

    def shares(self, problem: Problem) -> FloatArray:
        """Solves one linear program over the jobs in the order of their arrival."""
        turn = len(problem.rank) - problem.rank
        return most_value(problem, problem.rates * (turn / problem.best())[:, None]).x


class MinCost(Objective):
    """The largest Σ_j thr_j(X) / Σ_j cost_j(X), where jobs with a deadline get what they need to meet it.

    A job whose deadline is out of reach gets the largest part of what it needs that all such jobs can have.
    """

    fills = False  # what has no share would only cost money

    def shares(self, problem: Problem) -> FloatArray:
        """Dinkelbach's method: maximise throughput − λ·cost for the ratio λ of the last answer until it stays."""
        merged, row = problem.merged("left_s", "remaining")
        price = merged.price if (merged.price > 0.0).any() else np.ones_like(merged.price)
        cost = merged.width[:, None] * price
        need = self._needs(merged)
        ratio = 0.0
        for _ in range(_MOST_PROGRAMS):
            # A hair less than the ratio: jobs that are as good as the best shall run rather than not.
            x = most_value(merged, merged.rates - ratio * (1.0 - _WORTH) * cost, need).x
            spent = float((merged.count[:, None] * cost * x).sum())
            reached = float((merged.count * merged.effective(x)).sum()) / spent if spent > 0.0 else ratio
            if reached <= ratio * (1.0 + _SAME):
                break
            ratio = reached
        return x[row]

    def _needs(self, problem: Problem) -> Lower:
        """Throughputs by which deadlines are met, as far as they can be."""
        asked = np.isfinite(problem.left_s) & (runnable(problem) > 0.0)
        part = problem.remaining / problem.best() / np.where(asked, np.maximum(problem.left_s, 1e-9), 1.0)
        # More than all of the time on the fastest type cannot be given.
        level = np.where(asked, np.minimum(part, 1.0), 0.0)
        gain = problem.rates / problem.best()[:, None]
        found = highest_level(problem, Lower(gain, level, np.zeros(len(gain))), most=1.0)
        return Lower(gain, np.zeros(len(gain)), level * found.z * (1.0 - _WORTH))
