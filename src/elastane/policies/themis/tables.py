"""Answers for each job as its agent would: what it could do with every bundle that it might be offered.

A bundle is a number of workers on one accelerator type, on the fewest nodes that hold them, which is what the auction
tries to give.  Sizes are powers of two, the least and the most that the job can have, and what it has.  A curve that
was fitted is believed up to twice the workers that the job was seen with; its demand is the fastest size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.allocation.eviction import Configuration
from elastane.policies.sia.goodputs import Row, goodputs
from elastane.policies.themis.finish_time import App
from elastane.policies.themis.history import History
from elastane.policies.view import Ability, JobView, View, has

_EXPLORE = 2
_UNKNOWN_S = 3600.0
"""Work, in seconds on one GPU, that a job of unknown length is taken to have at least; else twice what it has had."""


@dataclass(frozen=True)
class Table:
    """One job: what it is far behind, and what each configuration would do for it.

    ``speedups`` are against one GPU of its best type.  ``present`` is that of what it holds, 0 if it holds nothing.
    """

    job: JobView
    app: App
    choices: tuple[Configuration, ...]
    speedups: FloatArray
    home: str | None
    present: float
    unit: float

    @property
    def slowest(self) -> float:
        """The smallest speed-up above 0 that any bundle gives; 0 if none does anything."""
        return float(min(self.speedups[self.speedups > 0.0], default=0.0))

    def speedup(self, choice: Configuration) -> float:
        """Returns the speed-up of a configuration that need not be one of the choices."""
        return float(goodputs([Row(self.job, (choice,))])[0][0]) / self.unit


def is_stuck(job: JobView, view: View) -> bool:
    """Tells whether a job can run only as and where it runs now."""
    if job.grant is None or has(job.abilities, Ability.MIGRATE):
        return False
    return all(part.node in view.usable for part in job.grant.slices)


def tables_of(jobs: Sequence[JobView], view: View, history: History) -> dict[str, Table]:
    """Returns the tables of these jobs, all computed at once."""
    machines = _machines(view)
    known: dict[tuple[object, ...], tuple[Configuration, ...]] = {}
    asked: list[tuple[JobView, str | None, tuple[Configuration, ...], Row]] = []
    for job in jobs:
        home = _home(job, view)
        mine = _choices(job, home, view, machines, known)
        ones = tuple(Configuration(kind, 1) for kind in machines if _allows(job, kind))
        assert home is None or job.grant is not None
        now = (Configuration(home, job.workers, len(job.grant.slices)),) if home and job.grant else ()
        asked.append((job, home, mine, Row(job, (*mine, *ones, *now))))
    rates = goodputs([row for *_, row in asked])
    found = {}
    for (job, home, mine, row), rate in zip(asked, rates, strict=True):
        on_one = rate[len(mine) : len(rate) - bool(home)]
        unit = float(on_one.max(initial=0.0)) or _per_gpu(row, rate) or 1.0
        speedups = rate / unit
        widest = mine[int(np.argmax(speedups[: len(mine)]))].gpus if mine else 1
        app = _app(job, view, history, unit, widest)
        present = float(speedups[-1]) if home else 0.0
        found[job.id] = Table(job, app, mine, speedups[: len(mine)], home, present, unit)
    return found


def _per_gpu(row: Row, rate: FloatArray) -> float:
    """Returns the best rate per GPU, for a job that cannot run on one."""
    return float(max((rate / [each.gpus for each in row.choices]), default=0.0))


def _machines(view: View) -> dict[str, list[int]]:
    """Returns the GPUs of the nodes of each type, the largest first."""
    found: dict[str, list[int]] = {}
    for node in sorted(view.usable.values(), key=lambda node: (node.gpu_type, -node.gpus)):
        found.setdefault(node.gpu_type, []).append(node.gpus)
    return found


def _home(job: JobView, view: View) -> str | None:
    """Returns the type a job runs on; None if it does not run, or not on nodes that can be used."""
    if job.grant is None or any(node not in view.usable for node in job.grant.nodes):
        return None
    return view.usable[job.grant.nodes[0]].gpu_type


def _allows(job: JobView, kind: str) -> bool:
    return not job.request.types or kind in job.request.types


def _choices(
    job: JobView,
    home: str | None,
    view: View,
    machines: dict[str, list[int]],
    known: dict[tuple[object, ...], tuple[Configuration, ...]],
) -> tuple[Configuration, ...]:
    if home and is_stuck(job, view):
        return (Configuration(home, job.workers, len(job.grant.slices) if job.grant else 1),)
    found: list[Configuration] = []
    for kind in machines:
        if not _allows(job, kind):
            continue
        key = (
            kind,
            *_limits(job),
            job.workers if kind == home else 0,
            job.request.worker.gpus,
            job.request.max_nodes,
        )
        if key not in known:
            known[key] = tuple(_on(job, kind, machines[kind], job.workers if kind == home else 0))
        found.extend(known[key])
    return tuple(found)


def _limits(job: JobView) -> tuple[int, int]:
    """Returns the fewest and the most workers that a job can have."""
    request = job.request
    if not has(job.abilities, Ability.RESIZE):
        return request.workers, request.workers
    least = max(request.min_workers, 1)
    most = max(request.max_workers, least)
    if job.speed is not None:
        seen = max(_EXPLORE * job.speed.max_profiled, job.workers, least)
        most = min(most, seen, max(job.speed.max_useful, least))
    return least, most


def _on(job: JobView, kind: str, nodes: Sequence[int], held: int) -> list[Configuration]:
    least, most = _limits(job)
    each = job.request.worker.gpus
    fits = sorted((int(gpus / each + 1e-9) if each else gpus for gpus in nodes), reverse=True)
    reach = sum(fits[: job.request.max_nodes])
    powers = (1 << bit for bit in range(most.bit_length()))
    sizes = sorted(
        {size for size in (*powers, least, min(most, reach), held) if least <= size <= min(most, reach)}
    )
    return [Configuration(kind, size, _nodes_for(size, fits)) for size in sizes]


def _nodes_for(workers: int, fits: Sequence[int]) -> int:
    for number, fit in enumerate(fits, start=1):
        workers -= fit
        if workers <= 0:
            return number
    return max(len(fits), 1)


def _app(job: JobView, view: View, history: History, unit: float, demand: int) -> App:
    """Returns the state of a job; what its owner declared stands in where nothing was measured."""
    served = job.ledger.service_at(view.now_s)
    left, whole = job.remaining, history.jobs[job.id].work
    if job.speed is not None and left is not None and whole and math.isfinite(left.mean):
        left_s, total_s = max(left.mean, 0.0) / unit, whole / unit
    else:
        declared = job.declared_s
        total_s = max(_UNKNOWN_S, 2.0 * served) if declared is None else declared * max(job.request.workers, 1)
        left_s = max(total_s - served, 0.0)
    age_s = max(view.now_s - job.submit_s, 0.0)
    return App(age_s, left_s, max(total_s, 1e-6), demand, history.contention(job.id))
