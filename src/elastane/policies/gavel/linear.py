"""Linear programs over allocations, solved by HiGHS.

Every one of Gavel's problems is the base constraints of ``problem`` with lower bounds on linear functions of single
jobs' rows, and a linear objective.  Most have one more variable z, "the level that all jobs reach".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

from elastane.errors import ElastaneError
from elastane.models.speed import FloatArray
from elastane.policies.gavel.problem import Problem


class Infeasible(ElastaneError):
    """No allocation satisfies the constraints."""


@dataclass(frozen=True)
class Lower:
    """Σ_τ gain[j,τ]·X[j,τ] ≥ level[j]·z, and ≥ floor[j], for every job j."""

    gain: FloatArray
    level: FloatArray
    floor: FloatArray


@dataclass(frozen=True)
class Solution:
    """An optimal allocation, the value of z, and what binds it: prices of each job's level and of each type's GPUs.

    A price of 0 means that there is some to spare.
    """

    x: FloatArray
    z: float
    duals: FloatArray
    prices: FloatArray


def highest_level(problem: Problem, lower: Lower, most: float = np.inf) -> Solution:
    """Maximise z, up to ``most``; 0 where nobody is asked to reach it."""
    most = most if (lower.level > 0.0).any() else 0.0
    return _solve(problem, lower, np.zeros_like(problem.rates), 1.0, (0.0, most))


def most_value(problem: Problem, value: FloatArray, lower: Lower | None = None) -> Solution:
    """Maximise Σ value[j,τ]·X[j,τ] over all jobs, identical ones counted."""
    none = np.zeros(len(problem.rates))
    lower = lower or Lower(np.zeros_like(problem.rates), none, none)
    return _solve(problem, lower, value * problem.count[:, None], 0.0, (0.0, 0.0))


def _solve(
    problem: Problem, lower: Lower, value: FloatArray, level_value: float, level: tuple[float, float]
) -> Solution:
    n, k = problem.rates.shape
    if not n:
        return Solution(np.zeros((0, k)), 0.0, np.zeros(0), np.zeros(k))
    reach = hstack([_by_job(-lower.gain), csr_array(lower.level[:, None])])
    promised = np.flatnonzero(lower.floor > 0.0)
    floors = hstack([_by_job(-lower.gain)[promised], csr_array((len(promised), 1))])
    rows = vstack([reach, floors, base_constraints(problem)], format="csr")
    limits = np.concatenate([np.zeros(n), -lower.floor[promised], np.ones(n), problem.capacity])
    upper = np.where(problem.allowed, np.inf, 0.0).ravel().tolist()
    bounds = [*((0.0, most) for most in upper), level]
    gain = np.append(value.ravel(), level_value)
    found = linprog(-gain, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
    if found.status == 2:
        raise Infeasible("no allocation of the cluster satisfies all constraints")
    if found.status != 0 or found.x is None:
        raise ElastaneError(f"the linear program was not solved: {found.message}")
    x = np.clip(found.x[:-1].reshape(n, k), 0.0, 1.0)
    return Solution(x, float(found.x[-1]), -found.ineqlin.marginals[:n], -found.ineqlin.marginals[-k:])


def base_constraints(problem: Problem) -> csr_array:
    """Time of each job, then GPUs of each type, as rows over (X, z)."""
    n, k = problem.rates.shape
    gpus = kron(csr_array((problem.count * problem.width)[None, :]), eye_array(k))
    rows = vstack([_by_job(np.ones((n, k))), gpus])
    return csr_array(hstack([rows, csr_array((n + k, 1))]))


def _by_job(values: FloatArray) -> csr_array:
    """A matrix with job j's values in row j, at the columns of X[j,·]."""
    n, k = values.shape
    return csr_array((values.ravel(), np.arange(n * k), np.arange(0, n * k + 1, k)), shape=(n, n * k))
