"""The genetic search changes placements by crossover, mutation and repair (Pollux, OSDI'21, §4.2.2).

States are arrays of GPUs per (job, node, individual), jobs in priority order, pinned ones first.  Individuals
come last so that every step is a few long vector operations over the whole population.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import IntArray
from elastane.policies.allocation.problem import Problem

States = NDArray[np.int16]

_MOST_NODES = 16
"""The published search never spreads a job over more nodes than this."""

_RESET = _SHRINK_JOB = _SHRINK_CELL = 0.1
_ONE = 1 << 16  # probability 1 in the 16-bit draws below; nothing here needs finer ones


def draw_bits(rng: np.random.Generator, *shape: int) -> NDArray[np.uint16]:
    """Uniform 16-bit numbers, four from each of the generator's words because very many are needed."""
    size = math.prod(shape)
    words = rng.bit_generator.random_raw(-(-size // 4))
    return words.view(np.uint16)[:size].reshape(shape)


@dataclass(frozen=True)
class Variation:
    """The operators, with what they need to know of one round.

    Attributes:
        held: GPUs now, per (job, node).
        pinned: The first so many rows stay as they are.
        capacity: GPUs left by pinned jobs, per node.
        least: Below this a job gets nothing.
        most: Largest number of GPUs per job.
        widest: Largest number of nodes per job.
        kinds: Accelerator type per node, as a number.
        usable: Whether the job accepts that type, per (job, node).
    """

    held: States
    pinned: int
    capacity: States
    least: States
    most: States
    widest: States
    kinds: IntArray
    usable: NDArray[np.bool_]

    @classmethod
    def of(cls, problem: Problem) -> Variation:
        """Reads the limits of all jobs from the problem of one round."""
        pinned = int(np.count_nonzero(problem.pinned))
        left = problem.node_gpus - problem.held[:pinned].sum(axis=0)
        widest = [min(job.request.max_nodes or _MOST_NODES, _MOST_NODES) for job in problem.jobs]
        return cls(
            held=problem.held.astype(np.int16),
            pinned=pinned,
            capacity=np.maximum(left, 0).astype(np.int16),
            least=problem.least.astype(np.int16),
            most=problem.most.astype(np.int16),
            widest=np.array(widest, dtype=np.int16),
            kinds=problem.kinds,
            usable=problem.usable,
        )

    def crossover(self, states: States, parents: IntArray, rng: np.random.Generator) -> States:
        """Swaps all jobs from a random one on between the parents of a pair: two parents, two children."""
        jobs = len(states)
        pairs = len(parents) // 2
        # ``take`` keeps individuals last in memory; indexing with brackets would put them first.
        one, two = states.take(parents[:pairs], axis=2), states.take(parents[pairs : 2 * pairs], axis=2)
        tail = np.arange(jobs)[:, None, None] >= rng.integers(0, jobs, size=pairs)
        swap = (two - one) * tail
        return np.concatenate([one + swap, two - swap], axis=2)

    def mutate(self, states: States, rng: np.random.Generator) -> States:
        """Resets some rows to the present allocation, empties some cells, then hands out free GPUs."""
        jobs, nodes, count = states.shape
        job, individual = np.nonzero(draw_bits(rng, jobs, count) < _RESET * _ONE)
        states[job, :, individual] = self.held[job]
        job, individual = np.nonzero(draw_bits(rng, jobs, count) < _SHRINK_JOB * _ONE)
        states[job, :, individual] *= draw_bits(rng, len(job), nodes) >= _SHRINK_CELL * _ONE
        self._grow(states, rng)
        return states

    def _grow(self, states: States, rng: np.random.Generator) -> None:
        """Raise cells on nodes with room: about one job that is there already and one that is not, per node.

        A cell rises to a uniform value up to the node's size with probability p1 + p2 − p1·p2, where p1 is one
        over the jobs that would fit, and p2 one over those of them that are on the node (0 for empty cells).
        """
        free = states[self.pinned :]
        node, individual = np.nonzero(free.sum(axis=0, dtype=np.int16) < self.capacity[:, None])
        cells = free[:, node, individual]
        here = cells > 0
        new = 1.0 / max(len(free), 1)
        old = 1.0 / np.maximum(np.count_nonzero(here, axis=0), 1)
        draw = draw_bits(rng, *cells.shape)
        job, at = np.nonzero((draw < new * _ONE) | (here & (draw < (new + old - new * old) * _ONE)))
        now = cells[job, at]
        choices = self.capacity[node[at]] - now + 1
        free[job, node[at], individual[at]] = now + (rng.random(len(at)) * choices).astype(np.int16)

    def repair(self, states: States, rng: np.random.Generator) -> States:
        """Make every state obey every rule, in the published order; where jobs compete the first one wins.

        Accelerator types come before all else; the published search knows one type only.
        """
        self._unmix(states)
        states[: self.pinned] = self.held[: self.pinned, :, None]
        self._separate(states)
        self._limit_jobs(states, rng)
        self._fit_nodes(states)
        too_few = states.sum(axis=1, dtype=np.int16) < self.least[:, None]
        too_few[: self.pinned] = False
        states *= ~too_few[:, None, :]
        return states

    def _unmix(self, states: States) -> None:
        """Takes away GPUs of types a job does not accept, and of all types but the one it has most of."""
        if not self.usable.all():
            states *= self.usable[:, :, None]
        types = np.unique(self.kinds)
        if len(types) > 1:
            each = [states[:, self.kinds == kind].sum(axis=1, dtype=np.int16) for kind in types]
            main = types[np.argmax(each, axis=0)]
            states *= self.kinds[:, None] == main[:, None, :]

    def _separate(self, states: States) -> None:
        """Leaves only the first distributed job on each node: two of them would compete for its network."""
        here = states > 0
        here &= (here.sum(axis=1, dtype=np.int16) > 1)[:, None, :]
        taken = here[: self.pinned].any(axis=0)
        # Job by job: an accumulation along the first axis does the same, but jumps through memory.
        for row, own in zip(states[self.pinned :], here[self.pinned :], strict=True):
            row *= ~(own & taken)
            taken |= own

    def _limit_jobs(self, states: States, rng: np.random.Generator) -> None:
        """Take GPUs beyond a job's limit, and nodes beyond its widest spread, from nodes in random order."""
        over = states.sum(axis=1, dtype=np.int16) > self.most[:, None]
        if states.shape[1] > int(self.widest.min(initial=_MOST_NODES)):
            over |= (states > 0).sum(axis=1, dtype=np.int16) > self.widest[:, None]
        over[: self.pinned] = False
        job, individual = np.nonzero(over)
        rows = states[job, :, individual]
        # The node number in the low half makes one sort yield the order.
        keys = (draw_bits(rng, *rows.shape).astype(np.uint32) << 16) | np.arange(rows.shape[1], dtype=np.uint32)
        order = (np.sort(keys, axis=1) & 0xFFFF).astype(np.int64)
        running = np.cumsum(np.take_along_axis(rows, order, axis=1), axis=1, dtype=np.int16)
        kept = np.diff(np.minimum(running, self.most[job, None]), axis=1, prepend=np.int16(0))
        kept[np.cumsum(kept > 0, axis=1) > self.widest[job, None]] = 0
        np.put_along_axis(rows, order, kept, axis=1)
        states[job, :, individual] = rows

    def _fit_nodes(self, states: States) -> None:
        """Hand each node's GPUs out in job order until none are left."""
        left = np.repeat(self.capacity[:, None], states.shape[2], axis=1)
        for row in states[self.pinned :]:
            np.minimum(row, left, out=row)
            left -= row
