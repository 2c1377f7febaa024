"""The published search of Pollux (OSDI'21, §4.2.2): a genetic algorithm over whole placements.

Each round evolves the population of the last one for a number of generations; the answer is the state of the
highest fitness.  A second objective, the cluster's utility, only keeps the population diverse:

    utility = Σ_j (speedup_j / K_j) · share_j,   share_j = K_j / GPUs of the nodes in use

with K_j the GPUs of job j, so that K_j cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.allocation.objective import contribution
from elastane.policies.allocation.problem import Problem
from elastane.policies.allocation.solve_and_compare import as_rows
from elastane.policies.pollux.nsga2 import Standing, standing, survivors, tournament
from elastane.policies.pollux.population import first_population, remember
from elastane.policies.pollux.variation import States, Variation

_MARK_BITS = 36  # times all GPUs of a large cluster this is still below 2^53


@dataclass(frozen=True)
class StateObjectives:
    """Both objectives of a state, from tables over (placement kind, job, size).

    ``added`` is what a job contributes to the fitness with (0) its present grant or (1) another one, on one
    node or on several; ``speedup`` the same before the discount for moving.
    """

    added: FloatArray
    speedup: FloatArray
    held: States
    node_gpus: IntArray

    @classmethod
    def of(cls, problem: Problem) -> StateObjectives:
        """Builds the tables for the problem of one round."""
        speedup = np.stack([problem.one_node, problem.several])
        moved = speedup * problem.factor
        added = contribution(np.stack([speedup, moved]), problem.p)
        return cls(added, speedup, problem.held.astype(np.int16), problem.node_gpus)

    def objectives(self, states: States) -> FloatArray:
        """Returns fitness (as the sum that grows with it) and utility, shape (2, individuals)."""
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


class _Population(NamedTuple):
    """Individuals that differ from one another, with their objectives and how they compare."""

    states: States
    objectives: FloatArray
    marks: FloatArray
    stand: Standing

    def best(self) -> States:
        """Returns the state of the highest fitness."""
        return self.states[:, :, int(np.argmax(self.objectives[0]))]


@dataclass(frozen=True)
class _Selection:
    """Survival of the best ``size`` individuals, copies removed.

    ``weights`` turn a state into a number that marks it: whole numbers and sums that a float holds exactly, so that
    equal states have equal marks whatever the order of summation, and different ones hardly ever.
    """

    size: int
    worth: StateObjectives
    weights: FloatArray

    @classmethod
    def of(cls, problem: Problem, size: int, rng: np.random.Generator) -> _Selection:
        weights = rng.integers(1, 1 << _MARK_BITS, size=problem.held.size).astype(np.float64)
        return cls(size, StateObjectives.of(problem), weights)

    def survivors(self, states: States, parents: _Population | None = None) -> _Population:
        """Selects the survivors among new states and their parents."""
        marks = self.weights @ states.reshape(len(self.weights), -1)
        objectives = self.worth.objectives(states)
        if parents is not None:
            states = np.concatenate([parents.states, states], axis=2)
            marks = np.concatenate([parents.marks, marks])
            objectives = np.hstack([parents.objectives, objectives])
        single = np.sort(np.unique(marks, return_index=True)[1])
        stand = standing(objectives[:, single])
        kept = survivors(stand, self.size)
        chosen = single[kept]
        return _Population(states.take(chosen, axis=2), objectives[:, chosen], marks[chosen], stand.of(kept))


def evolve(
    problem: Problem, memory: Any, population: int, generations: int, seed: int
) -> tuple[dict[int, dict[int, int]], dict[str, Any]]:
    """Returns the fittest placement found (GPUs per node, per job row) and the population for the next round."""
    if not problem.held.size:
        return {}, {}
    rng = np.random.Generator(np.random.SFC64(seed))
    variation = Variation.of(problem)
    selection = _Selection.of(problem, population, rng)
    now = selection.survivors(variation.repair(first_population(problem, memory), rng))
    for _ in range(generations):
        parents = tournament(now.stand, population + population % 2, rng)
        children = variation.mutate(variation.crossover(now.states, parents, rng), rng)
        now = selection.survivors(variation.repair(children, rng), now)
    return as_rows(now.best()), remember(problem, now.states)
