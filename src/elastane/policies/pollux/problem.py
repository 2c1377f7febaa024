"""One round of Pollux as arrays: what every job is worth with every number of GPUs, and what it holds now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastane.models.goodput import GoodputModel, goodput_tables
from elastane.models.restart import realloc_factor
from elastane.models.speed import FloatArray, IntArray, SpeedModel
from elastane.policies.pollux.objective import contribution
from elastane.policies.pollux.speedups import rate_tables
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
    least: IntArray
    most: IntArray
    held: IntArray
    """Current GPUs per (job, node)."""
    pinned: NDArray[np.bool_]
    p: float

    @property
    def held_total(self) -> IntArray:
        """Current GPUs per job."""
        out: IntArray = self.held.sum(axis=1)
        return out

    def packed(self) -> FloatArray:
        """Speed-up with each size on as few nodes as possible."""
        sizes = np.arange(self.several.shape[1])
        widest = int(self.node_gpus.max(initial=0))
        return np.where(sizes <= widest, self.one_node, self.several)

    def speedup_of(self, job: int, nodes: int, workers: int) -> float:
        """Speed-up of one allocation."""
        table = self.one_node if nodes <= 1 else self.several
        return float(table[job, min(workers, table.shape[1] - 1)])

    def current_speedups(self) -> FloatArray:
        """Speed-ups if nothing changes."""
        nodes, total = np.count_nonzero(self.held, axis=1), self.held_total
        return np.array([self.speedup_of(j, int(nodes[j]), int(total[j])) for j in range(len(self.jobs))])

    def count_values(self) -> FloatArray:
        """What each size of each job adds to the objective if laid out perfectly; −inf where not allowed."""
        sizes = np.arange(self.several.shape[1])
        values = contribution(self.packed() * self.factor[:, None], self.p)
        rows = np.arange(len(self.jobs))
        held = self.held_total
        staying = contribution(self.current_speedups(), self.p)
        running = held > 0
        values[rows[running], held[running]] = np.maximum(
            staying[running], values[rows[running], held[running]]
        )
        allowed = ((sizes >= self.least[:, None]) & (sizes <= self.most[:, None])) | (sizes == 0)
        allowed = np.where(self.pinned[:, None], sizes == held[:, None], allowed)
        return np.where(allowed, values, -np.inf)


def build_problem(view: View, p: float, delay_s: float, fair_on_one_node: bool, max_explore: float) -> Problem:
    """Gather the view into arrays."""
    jobs = tuple(sorted(view.jobs.values(), key=lambda job: _priority(job, view.now_s)))
    node_ids = tuple(view.nodes)
    gpus = np.array([0 if node.draining else node.gpus for node in view.nodes.values()], dtype=np.int64)
    total, per_node = int(gpus.sum()), int(gpus.max(initial=1))
    held = np.zeros((len(jobs), len(node_ids)), dtype=np.int64)
    position = {node: i for i, node in enumerate(node_ids)}
    for row, job in enumerate(jobs):
        for part in job.grant.slices if job.grant else ():
            if part.node in position:
                held[row, position[part.node]] += part.workers
    least, most = _bounds(jobs, total, max_explore)
    one_node, several = _speedups(jobs, most, total, per_node, fair_on_one_node)
    ages = np.array([view.now_s - job.submit_s for job in jobs])
    restarts = np.array([float(job.ledger.restarts) for job in jobs])
    scale = len(node_ids) / max(total, 1)
    return Problem(
        jobs=jobs,
        node_ids=node_ids,
        node_gpus=gpus,
        one_node=one_node * scale,
        several=several * scale,
        factor=realloc_factor(delay_s, ages, restarts),
        least=least,
        most=most,
        held=held,
        pinned=np.array([job.pinned for job in jobs], dtype=bool),
        p=p,
    )


def _priority(job: JobView, now_s: float) -> tuple[bool, float, float, str]:
    return (not job.pinned, job.ledger.service_at(now_s), job.submit_s, job.id)


def _bounds(jobs: tuple[JobView, ...], total: int, explore: float) -> tuple[IntArray, IntArray]:
    """Smallest and largest size of each job; a job may at most double what it was ever seen with."""
    least, most = [], []
    for job in jobs:
        low, high = max(job.request.min_workers, 1), job.request.max_workers
        if not has(job.abilities, Ability.RESIZE):
            low = high = job.request.workers
        else:
            speed = job.speed
            seen = speed.max_profiled if speed else 0
            high = min(high, max(int(explore * seen), 1))
            if speed is not None:
                high = min(high, speed.max_useful)
            high = max(high, low)
        least.append(low)
        most.append(min(high, total))
    return np.array(least, dtype=np.int64), np.array(most, dtype=np.int64)


def _speedups(
    jobs: tuple[JobView, ...], most: IntArray, total: int, per_node: int, fair_on_one_node: bool
) -> tuple[FloatArray, FloatArray]:
    """Goodput over that of a fair share; jobs never measured are believed to scale perfectly."""
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
    """Goodput with a fair share; where that is more than a job can use, with the most it can use."""
    if not models:
        return np.zeros(0)
    wanted = np.array([[min(workers, model.max_useful)] for model in models])
    spread = np.full_like(wanted, nodes)
    fitted = [model for model in models if isinstance(model, GoodputModel)]
    if len(fitted) == len(models):
        rates = goodput_tables(fitted, spread, wanted).rate[:, 0]
    else:
        rates = np.array([m.rates(n, w)[0] for m, n, w in zip(models, spread, wanted, strict=True)])
    return np.maximum(rates, 1e-12)
