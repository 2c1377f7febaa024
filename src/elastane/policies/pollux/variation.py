"""How the genetic search changes placements: crossover, mutation, and repair (Pollux, OSDI'21, §4.2.2).

States are arrays of GPUs per (job, node, individual), jobs in priority order.  Individuals come last so that
every step is a few long vector operations over the whole population.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import IntArray
from elastane.policies.pollux.problem import Problem

States = NDArray[np.int16]

_MOST_NODES = 16
"""The published search never spreads a job over more nodes than this."""

_RESET = _SHRINK_JOB = _SHRINK_CELL = 0.1
_ONE = 1 << 16  # probability 1 in the 16-bit draws below; nothing here needs finer ones


def draw_bits(rng: np.random.Generator, *shape: int) -> NDArray[np.uint16]:
    """Uniform 16-bit numbers, four from each of the generator's words."""
    size = int(np.prod(shape))
    words = rng.integers(0, 1 << 64, size=-(-size // 4), dtype=np.uint64)
    return words.view(np.uint16)[:size].reshape(shape)


@dataclass(frozen=True)
class Variation:
    """The operators, with what they need to know of one round.

    Attributes:
        held: GPUs now, per (job, node).
        pinned: Rows that stay as they are.
        capacity: GPUs per node left by pinned jobs.
        least: Below this a job gets nothing.
        most: Largest number of GPUs per job.
        widest: Largest number of nodes per job.
    """

    held: States
    pinned: NDArray[np.bool_]
    capacity: NDArray[np.int16]
    least: NDArray[np.int16]
    most: NDArray[np.int16]
    widest: NDArray[np.int16]

    @classmethod
    def of(cls, problem: Problem) -> Variation:
        """Limits of all jobs of a round."""
        held = problem.held.astype(np.int16)
        taken = problem.held[problem.pinned].sum(axis=0)
        widest = [min(job.request.max_nodes or _MOST_NODES, _MOST_NODES) for job in problem.jobs]
        return cls(
            held=held,
            pinned=problem.pinned,
            capacity=np.maximum(problem.node_gpus - taken, 0).astype(np.int16),
            least=problem.least.astype(np.int16),
            most=problem.most.astype(np.int16),
            widest=np.array(widest, dtype=np.int16),
        )

    def crossover(self, states: States, parents: IntArray, rng: np.random.Generator) -> States:
        """Pairs swap all jobs from a random one on: two parents, two children."""
        jobs, nodes, _ = states.shape
        half = len(parents) // 2
        other = np.concatenate([parents[half : 2 * half], parents[:half]])
        cut = np.tile(rng.integers(0, jobs, size=half), 2)
        head = np.arange(jobs)[:, None, None] < cut
        one = states.take(parents[: 2 * half], axis=2)
        two = states.take(other, axis=2)
        return np.where(head, one, two)

    def mutate(self, states: States, rng: np.random.Generator) -> States:
        """Some rows return to the present allocation, some lose cells, then free GPUs are handed out."""
        jobs, nodes, count = states.shape
        back = draw_bits(rng, jobs, count) < _RESET * _ONE
        states = np.where(back[:, None, :], self.held[:, :, None], states)
        job, individual = np.nonzero(draw_bits(rng, jobs, count) < _SHRINK_JOB * _ONE)
        kept = draw_bits(rng, len(job), nodes) >= _SHRINK_CELL * _ONE
        states[job, :, individual] *= kept
        self._grow(states, rng)
        return states

    def _grow(self, states: States, rng: np.random.Generator) -> None:
        """Raise cells on nodes with room: about one job that is there already and one that is not, per node.

        A cell rises to a uniform value up to the node's size with probability p1 + p2 − p1·p2, where p1 is one
        over the jobs that would fit, and p2 one over those of them that are on the node (0 for empty cells).
        """
        here = states > 0
        room = states[~self.pinned].sum(axis=0, dtype=np.int16) < self.capacity[:, None]
        new = 1.0 / max(int(np.count_nonzero(~self.pinned)), 1)
        old = 1.0 / np.maximum(here[~self.pinned].sum(axis=0, dtype=np.int16), 1)
        limit_new = np.where(room, min(new * _ONE, _ONE - 1), 0).astype(np.uint16)
        limit_old = np.where(room, np.minimum((new + old - new * old) * _ONE, _ONE - 1), 0).astype(np.uint16)
        cells = np.flatnonzero(draw_bits(rng, *states.shape) < np.where(here, limit_old, limit_new))
        flat = states.reshape(-1)
        node = cells // states.shape[2] % states.shape[1]
        choices = self.capacity[node] - flat[cells] + 1
        flat[cells] += (rng.random(len(cells)) * choices).astype(np.int16)

    def repair(self, states: States, rng: np.random.Generator) -> States:
        """The nearest state that breaks no rule, in the published order; the earlier job wins."""
        states[self.pinned] = self.held[self.pinned, :, None]
        self._separate(states)
        self._limit_jobs(states, rng)
        free = ~self.pinned
        running = np.cumsum(states[free], axis=0, dtype=np.int16)
        np.minimum(running, self.capacity[:, None], out=running)
        states[free] = np.diff(running, axis=0, prepend=np.int16(0))
        too_few = states.sum(axis=1, dtype=np.int16) < self.least[:, None]
        states *= ~(too_few & free[:, None])[:, None, :]
        return states

    def _separate(self, states: States) -> None:
        """A node keeps its first distributed job only: two of them would fight for its network."""
        here = states > 0
        spread = here.sum(axis=1, dtype=np.int16) > 1
        here &= spread[:, None, :]
        later = np.cumsum(here, axis=0, dtype=np.int16) > 1
        later &= here
        later[self.pinned] = False
        states[later] = 0

    def _limit_jobs(self, states: States, rng: np.random.Generator) -> None:
        """Take GPUs beyond a job's limit, and nodes beyond its widest spread, from nodes in random order."""
        total = states.sum(axis=1, dtype=np.int16)
        spread = (states > 0).sum(axis=1, dtype=np.int16)
        over = (total > self.most[:, None]) | (spread > self.widest[:, None])
        over[self.pinned] = False
        job, individual = np.nonzero(over)
        rows = states[job, :, individual]
        order = np.argsort(draw_bits(rng, *rows.shape), axis=1)
        rows = np.take_along_axis(rows, order, axis=1)
        running = np.minimum(np.cumsum(rows, axis=1, dtype=np.int16), self.most[job, None])
        rows = np.diff(running, axis=1, prepend=np.int16(0))
        rows[np.cumsum(rows > 0, axis=1) > self.widest[job, None]] = 0
        back = np.empty_like(rows)
        np.put_along_axis(back, order, rows, axis=1)
        states[job, :, individual] = back
