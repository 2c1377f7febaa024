"""The published search of Pollux (OSDI'21, §4.2.2): a genetic algorithm over whole placements.

Each round evolves the population of the last one for a number of generations; the answer is the state of the
highest fitness.  A second objective, the cluster's utility, only keeps the population diverse:

    utility = Σ_j (speedup_j / K_j) · share_j,   share_j = K_j / GPUs of the nodes in use

with K_j the GPUs of job j, so that K_j cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.pollux.nsga2 import standing, survivors, tournament
from elastane.policies.pollux.objective import contribution
from elastane.policies.pollux.population import first_population, remember
from elastane.policies.pollux.problem import Problem
from elastane.policies.pollux.variation import States, Variation

_HASH_BITS = 36  # times all GPUs of a large cluster this still fits a float exactly


@dataclass(frozen=True)
class Worth:
    """Both objectives of a state, from tables over (placement kind, job, size).

    ``added`` is what a job contributes to the fitness with (0) its present grant or (1) another one, on one
    node or on several; ``speedup`` the same before the discount for moving.
    """

    added: FloatArray
    speedup: FloatArray
    held: States
    node_gpus: IntArray

    @classmethod
    def of(cls, problem: Problem) -> Worth:
        """Tables of one round."""
        speedup = np.stack([problem.one_node, problem.several])
        moved = speedup * problem.factor[:, None]
        added = contribution(np.stack([speedup, moved]), problem.p)
        return cls(added, speedup, problem.held.astype(np.int16), problem.node_gpus)

    def objectives(self, states: States) -> FloatArray:
        """Fitness (as the sum that grows with it) and utility, shape (2, individuals)."""
        here = states > 0
        jobs, sizes = self.speedup.shape[1:]
        total = np.minimum(states.sum(axis=1, dtype=np.int16), sizes - 1)
        several = here.sum(axis=1, dtype=np.int16) > 1
        moved = (states != self.held[:, :, None]).any(axis=1)
        cell = (several * jobs + np.arange(jobs)[:, None]) * sizes + total
        fitness = self.added.reshape(-1)[moved * self.speedup.size + cell].sum(axis=0)
        in_use = self.node_gpus @ here.any(axis=0)
        utility = self.speedup.reshape(-1)[cell].sum(axis=0) / np.maximum(in_use, 1)
        return np.stack([fitness, utility])


def evolve(
    problem: Problem, memory: Any, population: int, generations: int, seed: int
) -> tuple[dict[int, dict[int, int]], dict[str, Any]]:
    """The fittest placement found (GPUs per node, per job row) and the population to go on from next time."""
    rng = np.random.Generator(np.random.SFC64(seed))
    variation, worth = Variation.of(problem), Worth.of(problem)
    weights = rng.integers(1, 1 << _HASH_BITS, size=problem.held.size).astype(np.float64)
    states = variation.repair(first_population(problem, memory), rng)
    objectives = worth.objectives(states)
    states, objectives, stand = _select(states, objectives, population, weights)
    for _ in range(generations):
        parents = tournament(stand, population + population % 2, rng)
        children = variation.mutate(variation.crossover(states, parents, rng), rng)
        children = variation.repair(children, rng)
        objectives = np.hstack([objectives, worth.objectives(children)])
        states = np.concatenate([states, children], axis=2)
        states, objectives, stand = _select(states, objectives, population, weights)
    fittest = states[:, :, int(np.argmax(objectives[0]))]
    return as_rows(fittest), remember(problem, states)


def _select(states, objectives, size, weights):
    """Drop copies, keep the best ``size`` individuals."""
    _, first = np.unique(weights @ states.reshape(len(weights), -1), return_index=True)
    first.sort()
    stand = standing(objectives[:, first])
    kept = survivors(stand, size)
    chosen = first[kept]
    return states[:, :, chosen], objectives[:, chosen], stand.of(kept)


def as_rows(state: NDArray[np.integer[Any]]) -> dict[int, dict[int, int]]:
    return {
        int(job): {int(node): int(state[job, node]) for node in state[job].nonzero()[0]}
        for job in np.flatnonzero(state.any(axis=1))
    }
