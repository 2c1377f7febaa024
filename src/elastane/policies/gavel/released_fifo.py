"""First come, first served as Gavel's released code has it, for comparison with the figures it published.

A job keeps the type it was given until it ends, and nobody overtakes the first in the queue.  Two slips of the code are
kept on purpose, because its figures come from them:

- a free type is drawn at random, but the alphabetically last one with any GPU left is given, whether the job fits or
  not; jobs that do not fit wait for GPUs of that type while others stand idle;
- when a type is used up, the type that was drawn is taken off the list, which may be another one.

A scheduler that wants arrival order uses ``fifo``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.gavel.objective import Allocation, Case, Objective
from elastane.policies.gavel.problem import Problem

_SEED = 0


class ReleasedFifo(Objective):
    """Sticky whole shares in order of arrival."""

    fills = False

    def allocate(self, case: Case) -> Allocation:
        """Successors of those who ended take their places, then the queue is served."""
        queue = _Queue.resumed(case)
        queue.succeed()
        queue.serve()
        return Allocation(queue.shares(), {"given": queue.given, "drawn": queue.drawn})

    def shares(self, problem: Problem) -> FloatArray:
        """From an empty cluster."""
        jobs = tuple(str(number) for number in range(len(problem.rates)))
        types = tuple(f"{number:03d}" for number in range(len(problem.capacity)))
        return self.allocate(Case(problem, jobs, types, {})).x


@dataclass
class _Queue:
    """The types given so far, what is free of each, and who waits.  ``drawn`` are the sizes of all random choices."""

    case: Case
    given: dict[str, str]
    drawn: list[int]
    chance: random.Random
    free: dict[str, float]
    row: dict[str, int]
    waiting: list[str] = field(default_factory=list)

    @classmethod
    def resumed(cls, case: Case) -> _Queue:
        """As the last allocation left it; the random source has to be in the state it had."""
        notes: dict[str, Any] = dict(case.notes)
        drawn = list(notes.get("drawn", ()))
        chance = random.Random(_SEED)
        for size in drawn:
            chance.randrange(size)
        free = dict(zip(case.types, case.problem.capacity.tolist(), strict=True))
        row = {job: number for number, job in enumerate(case.jobs)}
        given = {job: kind for job, kind in notes.get("given", {}).items() if kind in free}
        return cls(case, given, drawn, chance, free, row, [job for job in case.jobs if job not in given])

    def succeed(self) -> None:
        """The first in the queue takes the place of each job that ended, if it fits there."""
        for job, kind in list(self.given.items()):
            if job in self.row:
                self.free[kind] -= self._width(job)
                continue
            del self.given[job]
            if (
                self.waiting
                and self._width(self.waiting[0]) <= self.free[kind]
                and self._runs(self.waiting[0], kind)
            ):
                self._give(self.waiting.pop(0), kind)

    def serve(self) -> None:
        """Give types to the queue until its first job fits nowhere."""
        types = sorted(kind for kind, left in self.free.items() if left > 0)
        while self.waiting and types:
            job = self.waiting.pop(0)
            fitting = [place for place, kind in enumerate(types) if self.free[kind] >= self._width(job)]
            if not fitting:
                return
            drawn = self._draw(len(fitting))
            kind = types[-1]
            if self._runs(job, kind):
                self._give(job, kind)
                if self.free[kind] == 0:
                    types.pop(fitting[drawn])

    def shares(self) -> FloatArray:
        """All of the time on the type given."""
        x = np.zeros_like(self.case.problem.rates)
        for job, kind in self.given.items():
            x[self.row[job], self.case.types.index(kind)] = 1.0
        return x

    def _give(self, job: str, kind: str) -> None:
        self.given[job] = kind
        self.free[kind] -= self._width(job)

    def _draw(self, size: int) -> int:
        self.drawn.append(size)
        return self.chance.randrange(size)

    def _width(self, job: str) -> float:
        return float(self.case.problem.width[self.row[job]])

    def _runs(self, job: str, kind: str) -> bool:
        return bool(self.case.problem.rates[self.row[job], self.case.types.index(kind)] > 0.0)
