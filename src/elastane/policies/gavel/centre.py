"""The analytic centre of the optimal allocations: which of many equally good answers is given.

A max-min problem says nothing about the jobs that do not bind, so it has many solutions.  A simplex method returns a
corner of them, in which some jobs get all of what is left over and identical jobs are told apart.  The published
system used an interior-point solver, which ends near the analytic centre: identical jobs get identical shares, and
what is left over is spread.  Here HiGHS finds the optimum and Newton's method the centre of

    { X ≥ 0,  Σ_τ X[j,τ] ≤ 1,  Σ_j w_j·X[j,τ] ≤ R_τ,  Σ_τ gain[j,τ]·X[j,τ] ≥ (1−ε)·floor[j] }

by maximising the sum of the logarithms of all slacks.  The Hessian is a k×k block per job plus rank k for the
capacities, so one step takes time linear in the number of jobs.
"""

from __future__ import annotations

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.gavel.problem import Problem

_EPSILON = 1e-4
_STEPS = 60
_ENOUGH = 1e-6
_SHORTEST = 1e-10


def centred(problem: Problem, x: FloatArray, gain: FloatArray, floor: FloatArray) -> FloatArray:
    """The centre of the allocations that give every job its floor; ``x`` is one that does."""
    asked = np.asarray(problem.allowed.any(axis=1))
    if not asked.any():
        return x
    answer = np.array(x)
    answer[asked] = _Barrier(problem.rows(asked), gain[asked], floor[asked]).centre(x[asked])
    return answer


class _Barrier:
    """Σ log(slack), its gradient and its Newton step."""

    def __init__(self, problem: Problem, gain: FloatArray, floor: FloatArray) -> None:
        self.load = problem.count * problem.width
        self.count, self.capacity = problem.count, problem.capacity
        self.open = problem.allowed
        self.bound = floor > 0.0
        scale = np.where(self.bound, floor, 1.0)
        self.gain, self.floor = gain / scale[:, None], np.where(self.bound, 1.0 - _EPSILON, 0.0)

    def centre(self, x: FloatArray) -> FloatArray:
        """Newton steps with backtracking from a point just inside."""
        x = self._inside(x)
        value = self._value(x)
        for _ in range(_STEPS):
            step, gained = self._step(x)
            if not gained > _ENOUGH:
                break
            length = 1.0
            while (tried := self._value(x + length * step)) < value + 0.1 * length * gained:
                length /= 2.0
                if length < _SHORTEST:
                    return x
            x, value = x + length * step, tried
        return x

    def _inside(self, x: FloatArray) -> FloatArray:
        """A little of every allowed type for everybody, taken from what the floors leave."""
        asked = (self.load[:, None] * self.open).sum(axis=0)
        spread = np.where(self.open, self.capacity / np.maximum(asked, 1e-300), 0.0)
        spread = 0.5 * spread / max(float(spread.sum(axis=1).max()), 1.0)
        return (1.0 - _EPSILON / 2) * x + _EPSILON / 2 * spread

    def _slacks(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        free = self.capacity - (self.load[:, None] * x).sum(axis=0)
        surplus = np.where(self.bound, (self.gain * x).sum(axis=1) - self.floor, 1.0)
        return np.where(self.open, x, 1.0), 1.0 - x.sum(axis=1), free, surplus

    def _value(self, x: FloatArray) -> float:
        own, idle, free, surplus = self._slacks(x)
        if min(own.min(), idle.min(), free.min(), surplus.min()) <= 0.0:
            return -np.inf
        logs = np.log(own).sum(axis=1) + np.log(idle) + np.log(surplus)
        return float((self.count * logs).sum() + np.log(free).sum())

    def _step(self, x: FloatArray) -> tuple[FloatArray, float]:
        """The Newton step, and how much it would gain if the value were quadratic (twice that)."""
        own, idle, free, surplus = self._slacks(x)
        bound = np.where(self.bound, 1.0 / surplus, 0.0)
        slope = 1.0 / own - (1.0 / idle)[:, None] + self.gain * bound[:, None]
        slope = np.where(self.open, self.count[:, None] * slope - self.load[:, None] / free, 0.0)
        inverse = self._inverse(own, idle, bound)
        alone = np.einsum("jab,jb->ja", inverse, slope)
        coupling = np.einsum("j,jab->ab", self.load**2, inverse)
        pressure = np.linalg.solve(np.diag(free**2) + coupling, self.load @ alone)
        step = alone - self.load[:, None] * np.einsum("jab,b->ja", inverse, pressure)
        return step, float((slope * step).sum())

    def _inverse(self, own: FloatArray, idle: FloatArray, bound: FloatArray) -> FloatArray:
        """The inverse of every job's own block of the Hessian; a type it may not use does not move."""
        k = own.shape[1]
        block = (bound**2)[:, None, None] * (self.gain[:, :, None] * self.gain[:, None, :])
        block = block + (1.0 / idle**2)[:, None, None]
        block[:, np.arange(k), np.arange(k)] += 1.0 / own**2
        pair = self.open[:, :, None] & self.open[:, None, :]
        inverse = np.linalg.inv(np.where(pair, block * self.count[:, None, None], np.eye(k)))
        return np.where(pair, inverse, 0.0)
