"""Describes one allocation round as arrays: each job's speed-up with every number of GPUs, and what it holds now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from elastane.models.goodput import GoodputModel, goodput_tables
from elastane.models.restart import realloc_factor
from elastane.models.speed import FloatArray, IntArray, SpeedModel
from elastane.policies.allocation.objective import contribution
from elastane.policies.allocation.speedups import rate_tables
from elastane.policies.view import Ability, JobView, View, has


@dataclass(frozen=True)
class Problem:
    """Jobs in priority order (least attained service, then age) × sizes.

    ``one_node`` and ``several`` are speed-ups over a fair share, before the discount for moving (``factor``).
    """

    jobs: tuple[JobView, ...]
    node_ids: tuple[str, ...]
    node_gpus: IntArray
    one_node: FloatArray
    several: FloatArray
    factor: FloatArray
    """The part of a speed-up that remains after a move, per (job, size)."""
    least: IntArray
    most: IntArray
    held: IntArray
    """Current GPUs per (job, node)."""
    pinned: NDArray[np.bool_]
    """Jobs that stay exactly as they are; they come first."""
    kinds: IntArray
    """Accelerator type of each node, as a number: no job may mix them."""
    usable: NDArray[np.bool_]
    """Whether the job accepts the node's accelerator, per (job, node)."""
    p: float
    extra: FloatArray | None = None
    """Additional value, per (job, size), that is not discounted when a job moves."""
    urgent: tuple[int, ...] = ()
    """Rows of jobs for which others have to make room, the first one first."""
    reference: FloatArray | None = None
    """Speed-up with one reference GPU, per job, where that is not a GPU of this problem."""
    elsewhere: FloatArray | None = None
    """Speed-up of each job on GPUs of another type that it holds; 0: it holds none."""

    @property
    def held_total(self) -> IntArray:
        """Current GPUs per job."""
        out: IntArray = self.held.sum(axis=1)
        return out

    @property
    def running(self) -> NDArray[np.bool_]:
        """Jobs that hold GPUs, here or of another type."""
        here = self.held_total > 0
        return here if self.elsewhere is None else here | (self.elsewhere > 0.0)

    @property
    def one_gpu(self) -> FloatArray:
        """Speed-up with one GPU, the unit of a job's work."""
        if self.reference is not None:
            return self.reference
        return self.one_node[:, 1] if self.one_node.shape[1] > 1 else np.ones(len(self.jobs))

    def packed(self) -> FloatArray:
        """Speed-up with each size on as few nodes as possible."""
        sizes = np.arange(self.several.shape[1])
        widest = int(self.node_gpus.max(initial=0))
        return np.where(sizes <= widest, self.one_node, self.several)

    def speedup_of(self, job: int, nodes: int, workers: int) -> float:
        """Returns the speed-up of one job with ``workers`` GPUs on ``nodes`` nodes, before the discount for moving."""
        table = self.one_node if nodes <= 1 else self.several
        return float(table[job, min(workers, table.shape[1] - 1)])

    def stays(self, job: int, row: Mapping[int, int]) -> bool:
        """Whether these GPUs per node are exactly what a job holds."""
        held = self.held[job]
        return np.count_nonzero(held) == len(row) and all(held[node] == count for node, count in row.items())

    def current_speedups(self) -> FloatArray:
        """Speed-ups if nothing changes."""
        nodes, total = np.count_nonzero(self.held, axis=1), self.held_total
        here = np.array([self.speedup_of(j, int(nodes[j]), int(total[j])) for j in range(len(self.jobs))])
        return here if self.elsewhere is None else here + self.elsewhere

    def present_value(self) -> float:
        """The objective if nothing changes."""
        value = float(contribution(self.current_speedups(), self.p).sum())
        if self.extra is not None:
            value += float(self.extra[np.arange(len(self.jobs)), self.held_total].sum())
        return value

    def count_values(self) -> FloatArray:
        """Returns what each size of each job adds to the objective if laid out perfectly; −inf where not allowed."""
        sizes = np.arange(self.several.shape[1])
        values = contribution(self.packed() * self.factor, self.p)
        rows = np.arange(len(self.jobs))
        held = self.held_total
        staying = contribution(self.current_speedups(), self.p)
        running = held > 0
        values[rows[running], held[running]] = np.maximum(
            staying[running], values[rows[running], held[running]]
        )
        if self.extra is not None:
            values += self.extra
        allowed = ((sizes >= self.least[:, None]) & (sizes <= self.most[:, None])) | (sizes == 0)
        allowed = np.where(self.pinned[:, None], sizes == held[:, None], allowed)
        return np.where(allowed, values, -np.inf)


@dataclass(frozen=True)
class Frame:
    """A round without speeds: who there is, in priority order, what they hold and where they may go."""

    jobs: tuple[JobView, ...]
    node_ids: tuple[str, ...]
    node_gpus: IntArray
    kinds: IntArray
    usable: NDArray[np.bool_]
    held: IntArray
    least: IntArray
    most: IntArray
    pinned: NDArray[np.bool_]

    def problem(self, one_node: FloatArray, several: FloatArray, factor: FloatArray, p: float) -> Problem:
        """Completes the frame with speed-ups and the discount for moving (``factor``)."""
        frame = {each.name: getattr(self, each.name) for each in fields(self)}
        return Problem(**frame, one_node=one_node, several=several, factor=factor, p=p)


def frame_of(view: View, max_explore: float, first: int) -> Frame:
    """Gathers the view into arrays; a job that was never measured may have ``first`` GPUs."""
    jobs = tuple(sorted(view.jobs.values(), key=lambda job: _priority(job, view)))
    node_ids = tuple(sorted(view.nodes))
    types = [view.nodes[node].gpu_type for node in node_ids]
    held = _held(jobs, view, node_ids)
    least, most = _bounds(jobs, reach_of(jobs, view), held.sum(axis=1), max_explore, first)
    return Frame(
        jobs=jobs,
        node_ids=node_ids,
        node_gpus=_node_gpus(view, node_ids),
        kinds=np.unique(np.array(types, dtype=str), return_inverse=True)[1].astype(np.int64),
        usable=_usable(jobs, types),
        held=held,
        least=least,
        most=most,
        pinned=np.array([_stays(job, view) for job in jobs], dtype=bool),
    )


def build_problem(
    view: View, p: float, delay_s: float, fair_on_one_node: bool, max_explore: float, first: int = 1
) -> Problem:
    """Builds the round with speed-ups over a fair share, all accelerator types treated as one."""
    frame = frame_of(view, max_explore, first)
    total, per_node = int(frame.node_gpus.sum()), int(frame.node_gpus.max(initial=1))
    most = np.maximum(frame.most, frame.held.sum(axis=1))
    one_node, several = _speedups(frame.jobs, most, total, per_node, fair_on_one_node)
    ages = np.array([view.now_s - job.submit_s for job in frame.jobs])
    restarts = np.array([float(job.ledger.restarts) for job in frame.jobs])
    factor = np.tile(realloc_factor(delay_s, ages, restarts)[:, None], (1, several.shape[1]))
    scale = len(frame.node_ids) / max(total, 1)
    return frame.problem(one_node * scale, several * scale, factor, p)


def _priority(job: JobView, view: View) -> tuple[bool, float, float, str]:
    return (not _stays(job, view), job.ledger.service_at(view.now_s), job.submit_s, job.id)


def _stays(job: JobView, view: View) -> bool:
    """Whether the job must keep its grant, or can have no other."""
    if view.must_keep(job):
        return True
    return _stands(job, view) and not has(job.abilities, Ability.MIGRATE)


def _stands(job: JobView, view: View) -> bool:
    """Whether the job holds something and no node of it has gone or is about to."""
    if job.grant is None:
        return False
    return all(part.node in view.nodes and not view.nodes[part.node].draining for part in job.grant.slices)


def _node_gpus(view: View, node_ids: tuple[str, ...]) -> IntArray:
    """Returns GPUs to divide per node; a draining node counts only those that pinned jobs keep."""
    kept = view.kept_on_draining()
    return np.array([kept.get(node, view.nodes[node].gpus) for node in node_ids], dtype=np.int64)


def _usable(jobs: tuple[JobView, ...], types: list[str]) -> NDArray[np.bool_]:
    accepted = {job.request.types for job in jobs}
    rows = {wish: np.array([not wish or kind in wish for kind in types], dtype=bool) for wish in accepted}
    return np.array([rows[job.request.types] for job in jobs], dtype=bool).reshape(len(jobs), len(types))


def _held(jobs: tuple[JobView, ...], view: View, node_ids: tuple[str, ...]) -> IntArray:
    """Returns GPUs per (job, node) that jobs can go on holding: none if a part of a gang is lost."""
    held = np.zeros((len(jobs), len(node_ids)), dtype=np.int64)
    position = {node: i for i, node in enumerate(node_ids)}
    for row, job in enumerate(jobs):
        if job.grant is not None and (view.must_keep(job) or _stands(job, view)):
            for part in job.grant.slices:
                held[row, position[part.node]] += part.workers
    return held


def reach_of(jobs: tuple[JobView, ...], view: View, gpu_type: str | None = None) -> list[int]:
    """Returns the most GPUs (of that type) that each job could ever get; equal requests are computed once."""
    wishes = {(job.request.types, job.request.max_nodes, job.request.worker): job.request for job in jobs}
    found = {}
    for wish, request in wishes.items():
        only = request if gpu_type is None else replace(request, types=(gpu_type,))
        accepted = gpu_type is None or not request.types or gpu_type in request.types
        found[wish] = view.reach(only) if accepted else 0
    return [found[job.request.types, job.request.max_nodes, job.request.worker] for job in jobs]


def _bounds(
    jobs: tuple[JobView, ...], reach: list[int], held: IntArray, explore: float, first: int
) -> tuple[IntArray, IntArray]:
    """Returns the smallest and largest size of each job: at most ``explore`` times what it was seen with, or as now."""
    least, most = [], []
    for job, limit, now in zip(jobs, reach, held, strict=True):
        low, high = max(job.request.min_workers, 1), job.request.max_workers
        if not has(job.abilities, Ability.RESIZE):
            low = high = job.request.workers
        else:
            speed = job.speed
            seen = speed.max_profiled if speed else 0
            explored = max(int(explore * seen), first)
            if speed is not None:
                explored = min(explored, speed.max_useful)
            high = max(min(high, max(explored, int(now))), low)
        least.append(low)
        most.append(min(high, limit))
    return np.array(least, dtype=np.int64), np.array(most, dtype=np.int64)


def _speedups(
    jobs: tuple[JobView, ...], most: IntArray, total: int, per_node: int, fair_on_one_node: bool
) -> tuple[FloatArray, FloatArray]:
    """Returns goodput over that with a fair share; jobs that were never measured are assumed to scale perfectly."""
    fair = max(-(-total // max(len(jobs), 1)), 1)
    width = int(most.max(initial=1)) + 1
    sizes = np.arange(width)
    ideal = sizes / fair
    one_node = np.tile(np.where(sizes <= per_node, ideal, 0.0), (len(jobs), 1))
    several = np.tile(np.where(sizes >= 2, ideal, 0.0), (len(jobs), 1))
    known = [(row, speed) for row, job in enumerate(jobs) if (speed := job.speed) is not None]
    models = [speed for _, speed in known]
    tables = rate_tables(models, [int(most[row]) for row, _ in known], per_node)
    fair_nodes = 1 if fair_on_one_node else -(-fair // per_node)
    fair_rates = _fair_rates(models, fair_nodes, fair)
    for (row, _), table, fair_rate in zip(known, tables, fair_rates, strict=True):
        for target, source in ((one_node, table.one_node), (several, table.several)):
            target[row] = 0.0
            reach = min(width, len(source))
            target[row, :reach] = source[:reach] / fair_rate
    return one_node, several


def _fair_rates(models: list[SpeedModel], nodes: int, workers: int) -> FloatArray:
    """Returns goodput with a fair share; where that exceeds what a job can use, with the most it can use."""
    rates = np.zeros(len(models))
    alike: dict[int, list[int]] = {}
    for row, model in enumerate(models):
        alike.setdefault(min(workers, model.max_useful), []).append(row)
    for size, rows in alike.items():
        fitted = [model for row in rows if isinstance(model := models[row], GoodputModel)]
        if len(fitted) == len(rows):
            rates[rows] = goodput_tables(fitted, np.array([nodes]), np.array([size])).rate[:, 0]
        else:
            rates[rows] = [models[row].rates(np.array([nodes]), np.array([size]))[0] for row in rows]
    return np.maximum(rates, 1e-12)
