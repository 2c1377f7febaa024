"""Converts a view to a problem of Gavel's: who takes part, and how fast each would be on each type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.gavel.problem import Problem
from elastane.policies.lowering.rounds import free_by_type
from elastane.policies.view import JobView, Tenant, View

UNKNOWN_RATE = 1.0
"""Steps per second of a job that nobody has timed yet, on every type alike, as in the released code."""

UNKNOWN_S = 3600.0
"""A job of unknown length is taken to have as much before it as behind it, and at least this long."""


@dataclass(frozen=True)
class Entrants:
    """The jobs that shares are computed for, the types they are on, and the problem that this makes."""

    jobs: tuple[str, ...]
    types: tuple[str, ...]
    problem: Problem


@dataclass(frozen=True)
class _Kind:
    """What there is of one accelerator type."""

    name: str
    gpus: int
    sizes: tuple[int, ...]
    price: float

    def reach(self, job: JobView) -> int:
        """The most GPUs of this type that the job could hold at once."""
        request = job.request
        if request.types and self.name not in request.types:
            return 0
        return self.gpus if request.max_nodes is None else min(self.gpus, sum(self.sizes[: request.max_nodes]))


def entrants(view: View, aware: bool) -> Entrants:
    """All jobs that may be placed, in order of arrival.

    Unless ``aware``, every type is as good as any other that the job can run on at all.
    """
    kinds = _kinds(view)
    jobs = sorted(
        (job for job in view.jobs.values() if not view.must_keep(job)), key=lambda j: (j.submit_s, j.id)
    )
    rates = np.array([[_rate(job, kind) for kind in kinds] for job in jobs]).reshape(len(jobs), len(kinds))
    left = np.array([_remaining(job, row, view.now_s) for job, row in zip(jobs, rates, strict=True)])
    if not aware:
        rates = (rates > 0.0).astype(np.float64)
    owners, entity_weight = _entities(jobs, view.tenants)
    problem = Problem.of(
        rates,
        np.array([float(kind.gpus) for kind in kinds]),
        np.array([float(job.request.gpus_of(job.request.workers)) for job in jobs]),
        weight=np.array([max(job.weight, 1e-9) for job in jobs]),
        remaining=left,
        elapsed_s=np.array([max(view.now_s - job.submit_s, 0.0) for job in jobs]),
        left_s=np.array([_left_s(job, view.now_s) for job in jobs]),
        price=np.array([kind.price for kind in kinds]),
        entity=np.array([owners[job.tenant] for job in jobs], dtype=np.int64),
        entity_weight=entity_weight,
    )
    return Entrants(tuple(job.id for job in jobs), tuple(kind.name for kind in kinds), problem)


def _kinds(view: View) -> list[_Kind]:
    """The types of which anything can be had, by name."""
    free = free_by_type(view)
    found = []
    for name in sorted(kind for kind, gpus in free.items() if gpus > 0):
        nodes = [node for node in view.usable.values() if node.gpu_type == name]
        sizes = tuple(sorted((node.gpus for node in nodes), reverse=True))
        price = sum(node.price_per_gpu_h * node.gpus for node in nodes) / sum(sizes)
        found.append(_Kind(name, free[name], sizes, price))
    return found


def _rate(job: JobView, kind: _Kind) -> float:
    """Work per second with the workers asked for, on as few nodes as hold them; 0 where it cannot run."""
    workers = job.request.workers
    need = job.request.gpus_of(workers)
    if kind.reach(job) < need:
        return 0.0
    speed = job.speed
    if speed is None:
        return UNKNOWN_RATE
    held, nodes = 0, 0
    while held < need:
        held, nodes = held + kind.sizes[nodes], nodes + 1
    rate = float(speed.rates(np.array([nodes]), np.array([workers]), kind.name)[0])
    return rate if math.isfinite(rate) and rate > 0.0 else 0.0


def _remaining(job: JobView, rates: FloatArray, now_s: float) -> float:
    known = job.remaining
    if known is not None and math.isfinite(known.mean):
        return max(known.mean, 1.0)
    return max(job.ledger.held_at(now_s), UNKNOWN_S) * float(rates.max(initial=UNKNOWN_RATE))


def _left_s(job: JobView, now_s: float) -> float:
    return math.inf if job.deadline_s is None else max(job.deadline_s - now_s, 0.0)


def _entities(jobs: list[JobView], tenants: Mapping[str, Tenant]) -> tuple[dict[str, int], FloatArray]:
    """Tenants that have jobs, by number, and their weights."""
    names = sorted({job.tenant for job in jobs}) or ["default"]
    weights = np.array([max(tenants.get(name, Tenant()).weight, 1e-9) for name in names])
    return {name: number for number, name in enumerate(names)}, weights
