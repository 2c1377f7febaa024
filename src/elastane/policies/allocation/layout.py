"""Places counts of GPUs on nodes, with at most one distributed job on any node (Pollux's interference avoidance)."""

from __future__ import annotations

import numpy as np

from elastane.models.speed import IntArray
from elastane.policies.allocation.problem import Problem


class Layout:
    """Places jobs one after another; keeps track of room and of nodes that host a distributed job."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.free = [int(g) for g in problem.node_gpus]
        self.shared = [False] * len(self.free)
        self.kind_of = [int(kind) for kind in problem.kinds]
        self.kinds = sorted(set(self.kind_of))
        self.rows: dict[int, dict[int, int]] = {}

    def keep(self, job: int) -> None:
        """Keeps a job on the GPUs it holds."""
        held = self.problem.held[job]
        self._commit(job, {int(n): int(held[n]) for n in held.nonzero()[0]})

    def has_room_to_keep(self, job: int) -> bool:
        """Whether a job could still stay where it is."""
        held = self.problem.held[job]
        nodes = [int(n) for n in held.nonzero()[0]]
        fits = all(int(held[n]) <= self.free[n] for n in nodes)
        return fits and (len(nodes) <= 1 or not any(self.shared[n] for n in nodes))

    def _commit(self, job: int, row: dict[int, int]) -> None:
        self.rows[job] = row
        for node, count in row.items():
            self.free[node] -= count
            if len(row) > 1:
                self.shared[node] = True

    def place(self, job: int, workers: int) -> None:
        """Places that many workers where the job is fastest, or fewer where not all of them find room."""
        options = [self._single(job, workers)]
        options.extend(self._spread(job, workers, kind) for kind in self.kinds)
        best, best_speedup = {}, 0.0
        for row in options:
            size = sum(row.values())
            if size < self.problem.least[job]:
                continue
            speedup = self.problem.speedup_of(job, len(row), size)
            if speedup > best_speedup:
                best, best_speedup = row, speedup
        if best:
            self._commit(job, best)

    def _single(self, job: int, workers: int) -> dict[int, int]:
        """Returns the node with fewest free GPUs that holds all workers; otherwise the one with most, filled up."""
        held, usable = self.problem.held[job], self.problem.usable[job].tolist()
        tightest, tightest_key = -1, (0, 0, 0)
        roomiest = -1
        for node, room in enumerate(self.free):
            if not usable[node]:
                continue
            if room >= workers:
                key = (room, -int(held[node]), node)
                if tightest < 0 or key < tightest_key:
                    tightest, tightest_key = node, key
            elif room > 0 and (roomiest < 0 or room > self.free[roomiest]):
                roomiest = node
        if tightest >= 0:
            return {tightest: workers}
        return {roomiest: self.free[roomiest]} if roomiest >= 0 else {}

    def _spread(self, job: int, workers: int, kind: int) -> dict[int, int]:
        """Returns nodes without another distributed job, most free GPUs first; the rest goes where it just fits."""
        held, limit = self.problem.held[job], self.problem.jobs[job].request.max_nodes
        right = [u and k == kind for u, k in zip(self.problem.usable[job].tolist(), self.kind_of, strict=True)]
        candidates = [n for n, room in enumerate(self.free) if room > 0 and right[n] and not self.shared[n]]
        candidates.sort(key=lambda n: (-self.free[n], -int(held[n]), n))
        row: dict[int, int] = {}
        while workers > 0 and candidates and (limit is None or len(row) < limit):
            holders = [n for n in candidates if self.free[n] >= workers]
            node = min(holders, key=lambda n: (self.free[n], n)) if holders else candidates[0]
            candidates.remove(node)
            row[node] = min(self.free[node], workers)
            workers -= row[node]
        return row

    def grow(self, job: int) -> None:
        """Gives a job that moves anyway the GPUs still free on its nodes, while they make it faster."""
        row = self.rows.get(job)
        while row:
            size = sum(row.values())
            node = next((n for n in row if self.free[n] > 0), None)
            if node is None or size + 1 > self.problem.most[job]:
                return
            nodes = len(row)
            if self.problem.speedup_of(job, nodes, size + 1) <= self.problem.speedup_of(job, nodes, size):
                return
            row[node] += 1
            self.free[node] -= 1


def lay_out(problem: Problem, counts: IntArray) -> dict[int, dict[int, int]]:
    """Returns GPUs per node for every job: unchanged jobs stay, the rest are packed, largest first.

    Where that leaves no place for an urgent job, all jobs that are not pinned may be moved to make room for it.
    """
    layout = _laid_out(problem, counts, make_room=False)
    if any(job not in layout.rows for job in problem.urgent if counts[job]):
        layout = _laid_out(problem, counts, make_room=True)
    return layout.rows


def _laid_out(problem: Problem, counts: IntArray, *, make_room: bool) -> Layout:
    layout = Layout(problem)
    held = problem.held_total
    spread_over = (problem.held > 0).sum(axis=1)
    moving = []
    if make_room:
        for job in np.flatnonzero(problem.pinned & (counts > 0)).tolist():
            layout.keep(job)
        for job in problem.urgent:
            if job not in layout.rows and counts[job]:
                layout.place(job, int(counts[job]))
    for job, count in enumerate(counts):
        count = int(count)
        if count == 0 or job in layout.rows:
            continue
        stays = count == held[job] and not _better_packed(problem, job, count, spread_over)
        if problem.pinned[job] or (stays and (not make_room or layout.has_room_to_keep(job))):
            layout.keep(job)
        else:
            moving.append((count, job))
    for count, job in sorted(moving, key=lambda item: (-item[0], item[1])):
        layout.place(job, count)
    for _, job in moving:
        layout.grow(job)
    return layout


def _better_packed(problem: Problem, job: int, count: int, spread_over: IntArray) -> bool:
    """Whether a scattered job would gain by being packed onto one node, restart included."""
    if spread_over[job] <= 1 or count > int(problem.node_gpus.max()):
        return False
    packed = problem.speedup_of(job, 1, count) * problem.factor[job, count]
    return bool(packed > problem.speedup_of(job, 2, count))
