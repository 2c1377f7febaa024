"""Finish-time fairness and makespan: objectives that know how much work is left.

    ρ_j(X) = (elapsed_j + W_j / thr_j(X)) / (iso_j + W_j / thr_j(X_iso))

W_j is the work left, X_iso a private n-th of the cluster, and iso_j the time that the work done so far would have taken
there.  The policy minimises the largest ρ.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from elastane.models.speed import FloatArray
from elastane.policies.gavel.centre import centred
from elastane.policies.gavel.linear import Lower, Solution, highest_level
from elastane.policies.gavel.objective import Allocation, Case, Objective, runnable
from elastane.policies.gavel.problem import Problem

_CLOSE = 1e-5
_MOST_PROGRAMS = 25


class FinishTimeFairness(Objective):
    """Minimises the largest finish-time ratio ρ of all jobs."""

    def allocate(self, case: Case) -> Allocation:
        """Add what each job did since the last allocation to its isolated time, then allocate."""
        problem = case.problem
        iso = problem.isolated()
        isolated = np.array(
            [
                _isolated_s(case.notes.get(job), left)
                for job, left in zip(case.jobs, problem.remaining, strict=True)
            ]
        )
        problem = replace(problem, isolated_s=isolated)
        rows = zip(case.jobs, isolated.tolist(), problem.remaining.tolist(), iso.tolist(), strict=True)
        return Allocation(
            self.shares(problem), {job: [done_s, left, speed] for job, done_s, left, speed in rows}
        )

    def shares(self, problem: Problem) -> FloatArray:
        """The smallest ρ that everybody can have.

        For a given ρ every job needs a throughput of need_j(ρ) = W_j / (ρ·D_j − elapsed_j); a program finds the
        largest z such that all get z·need_j.  Its duals y bound the best ρ from below, by Σ y_j·need_j(ρ) = z, which
        is the next one tried; z = 1 ends it.
        """
        merged, row = problem.merged("remaining", "elapsed_s", "isolated_s")
        gain = merged.rates / merged.best()[:, None]
        need = _Need(merged)
        rho = need.optimistic()
        for _ in range(_MOST_PROGRAMS):
            found = highest_level(merged, Lower(gain, need(rho), np.zeros(len(gain))))
            if found.z >= 1.0 - _CLOSE:
                break
            rho = need.next_bound(rho, found)
        return centred(merged, found.x, gain, need(rho) * min(found.z, 1.0))[row]


def _isolated_s(noted: list[float] | None, remaining: float) -> float:
    if noted is None:
        return 0.0
    done_s, left, speed = noted
    return done_s + (max(left - remaining, 0.0) / speed if speed > 0.0 else 0.0)


class _Need:
    """The part of its best throughput that each job needs to end with a ratio of ρ."""

    def __init__(self, problem: Problem) -> None:
        iso = problem.isolated()
        self.runs = runnable(problem) > 0.0
        self.left_s = problem.remaining / problem.best()
        self.elapsed_s = problem.elapsed_s
        self.due_s = problem.isolated_s + problem.remaining / np.where(iso > 0.0, iso, 1.0)

    def __call__(self, rho: float) -> FloatArray:
        return np.where(self.runs, self.left_s / (rho * self.due_s - self.elapsed_s), 0.0)

    def optimistic(self) -> float:
        """The largest ratio that some job has even with its best type for itself; 0 if there is no job."""
        return float(np.where(self.runs, (self.elapsed_s + self.left_s) / self.due_s, 0.0).max(initial=0.0))

    def next_bound(self, rho: float, found: Solution) -> float:
        """The ρ at which the prices of the last program would be met."""

        def excess(tried: float) -> float:
            return float(found.duals @ self(tried)) - found.z

        high = 2.0 * rho
        while excess(high) > 0.0:
            high *= 2.0
        return float(brentq(excess, rho, high, rtol=1e-12))


class Makespan(Objective):
    """The smallest H such that every job's work is done within it: thr_j(X) ≥ W_j / H."""

    def shares(self, problem: Problem) -> FloatArray:
        """Solves one linear program for the highest 1/H."""
        merged, row = problem.merged("remaining")
        left_s = merged.remaining / merged.best()
        gain = merged.rates / merged.best()[:, None]
        # In units of the longest job's own time, so that the numbers are of moderate size.
        level = runnable(merged) * left_s / max(float(left_s.max(initial=0.0)), 1e-300)
        found = highest_level(merged, Lower(gain, level, np.zeros(len(gain))))
        return centred(merged, found.x, gain, level * found.z)[row]
