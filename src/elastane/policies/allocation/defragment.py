"""Defragments a layout: a job scattered over nodes gets one node by moving one or two small jobs away from it.

Jobs that stay leave gaps of a GPU or two, and new jobs are scattered over those.  Others are moved only where that
costs the objective less than the scattered job loses.  Counts are not changed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from elastane.models.speed import IntArray
from elastane.policies.allocation.problem import Problem
from elastane.policies.allocation.solve_and_compare import Rows

_TINY = 1e-9
_MOST_JOBS = 16
"""Jobs that are helped in one decision, at most: those that lose most."""
_MOST_NODES = 32
"""Nodes that are tried for each of them, at most: those with most free GPUs."""
_ALIKE = 2
"""Jobs of one size on a node that are considered for moving, at most: those that are cheapest to move."""
_HOMES = 8
"""Nodes with equally many free GPUs that are considered as destinations, at most."""


def tidied(problem: Problem, rows: Rows, counts: IntArray) -> Rows:
    """Returns the layout with jobs moved out of the way of others where that gains more than it costs.

    Args:
        problem: The values of all sizes, and what jobs hold.
        rows: A layout.
        counts: GPUs per job that the layout was meant to give.
    """
    board = _Board(problem, rows)
    for job in board.badly_placed(counts)[:_MOST_JOBS]:
        board.make_room(job, int(counts[job]))
    return board.rows


class _Change(NamedTuple):
    """Gives one job a node: ``moved`` are the new places of the others, ``gain`` counts for all of them together."""

    gain: float
    node: int
    moved: dict[int, dict[int, int]]


class _Board:
    """Holds the layout while it changes: the GPUs of each job, the jobs and the free GPUs of each node."""

    def __init__(self, problem: Problem, rows: Rows) -> None:
        self.problem = problem
        self.rows = {job: dict(row) for job, row in rows.items()}
        self.free = [int(gpus) for gpus in problem.node_gpus]
        self.guests: list[set[int]] = [set() for _ in self.free]
        for job, row in self.rows.items():
            self._enter(job, row)

    def _enter(self, job: int, row: dict[int, int]) -> None:
        for node, count in row.items():
            self.free[node] -= count
            self.guests[node].add(job)

    def _leave(self, job: int, row: dict[int, int]) -> None:
        for node, count in row.items():
            self.free[node] += count
            self.guests[node].discard(job)

    def worth(self, job: int, row: dict[int, int]) -> float:
        """Returns what a job adds to the objective in that place, discounted if it would have to move there."""
        size = sum(row.values())
        if not size:
            return 0.0
        value = self.problem.speedup_of(job, len(row), size)
        if not self.problem.stays(job, row):
            value *= float(self.problem.factor[job, size])
        return value + (float(self.problem.extra[job, size]) if self.problem.extra is not None else 0.0)

    def badly_placed(self, counts: IntArray) -> list[int]:
        """Returns jobs that would fit on one node but are scattered or too small, those that lose most first."""
        widest = int(self.problem.node_gpus.max(initial=0))
        found = []
        for job in np.flatnonzero((counts > 0) & (counts <= widest) & ~self.problem.pinned).tolist():
            row, count = self.rows.get(job, {}), int(counts[job])
            if len(row) == 1 and sum(row.values()) >= count:
                continue
            packed = self.problem.speedup_of(job, 1, count) * float(self.problem.factor[job, count])
            if self.problem.extra is not None:
                packed += float(self.problem.extra[job, count])
            lost = packed - self.worth(job, row)
            if lost > _TINY:
                found.append((-lost, job))
        return [job for _, job in sorted(found)]

    def make_room(self, job: int, count: int) -> None:
        """Puts a job on one node if that gains more than it costs the jobs moved away."""
        before = self.rows.get(job, {})
        self._leave(job, before)
        changes = self._changes(job, count, self.worth(job, before))
        change = max(changes, key=lambda each: each.gain, default=None)
        if change is None:
            self._enter(job, before)
            return
        for other in change.moved:
            self._leave(other, self.rows[other])
        self.rows.update(change.moved)
        for other, row in change.moved.items():
            self._enter(other, row)
        self.rows[job] = {change.node: count}
        self._enter(job, self.rows[job])

    def _changes(self, job: int, count: int, before: float) -> Iterator[_Change]:
        """Yields every change that gains, among the nodes and jobs that are considered."""
        problem = self.problem
        fits = np.flatnonzero(problem.usable[job] & (problem.node_gpus >= count)).tolist()
        homes = self._homes()
        for node in sorted(fits, key=lambda n: (-self.free[n], n))[:_MOST_NODES]:
            gain = self.worth(job, {node: count}) - before
            if gain <= _TINY:
                continue
            missing = count - self.free[node]
            if missing <= 0:
                yield _Change(gain, node, {})
                continue
            guests = self._movable(node)
            for others in chain(combinations(guests, 1), combinations(guests, 2)):
                if sum(self.rows[other][node] for other in others) < missing:
                    continue
                moved = self._elsewhere(others, node, homes)
                cost = sum(self.worth(o, self.rows[o]) - self.worth(o, row) for o, row in moved.items())
                if moved and gain - cost > _TINY:
                    yield _Change(gain - cost, node, moved)

    def _homes(self) -> list[int]:
        """Returns destinations for moved jobs, nodes with fewest free GPUs first."""
        by_room: dict[int, list[int]] = {}
        for node, room in enumerate(self.free):
            if room and len(by_room.setdefault(room, [])) < _HOMES:
                by_room[room].append(node)
        return [node for room in sorted(by_room) for node in by_room[room]]

    def _movable(self, node: int) -> list[int]:
        """Returns jobs that stand on this node alone and may be moved, a few of each size."""
        by_size: dict[int, list[tuple[float, int]]] = {}
        for guest in self.guests[node]:
            row = self.rows[guest]
            if len(row) > 1 or self.problem.pinned[guest]:
                continue
            cost = self.problem.speedup_of(guest, 1, row[node]) * (1.0 - self.problem.factor[guest, row[node]])
            by_size.setdefault(row[node], []).append(
                (float(cost) if self.problem.stays(guest, row) else 0.0, guest)
            )
        return sorted(guest for guests in by_size.values() for _, guest in sorted(guests)[:_ALIKE])

    def _elsewhere(
        self, others: tuple[int, ...], node: int, candidates: list[int]
    ) -> dict[int, dict[int, int]]:
        """Returns the other node with fewest free GPUs that holds each of these jobs; empty if one finds none."""
        room = {n: self.free[n] for n in candidates if n != node}
        moved = {}
        for other in sorted(others, key=lambda o: (-self.rows[o][node], o)):
            size, usable = self.rows[other][node], self.problem.usable[other]
            homes = [n for n, left in room.items() if left >= size and usable[n]]
            if not homes:
                return {}
            home = min(homes, key=lambda n: (not self.problem.stays(other, {n: size}), room[n], n))
            room[home] -= size
            moved[other] = {home: size}
        return moved
