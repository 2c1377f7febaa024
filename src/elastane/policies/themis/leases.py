"""Keeps the leases of GPUs: who holds how many on which node until when.

A lease is of GPUs, not of jobs: that of GPUs won later ends later.  Until then they stay with their job.
GPUs held without a lease, from before this policy took over, can be auctioned at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elastane.cluster import Grant
from elastane.policies.view import JobView, View

_INSTANT_S = 1e-6


@dataclass(frozen=True, slots=True)
class Lot:
    """Workers of one job on one node, whose GPUs are leased until the same time."""

    node: str
    workers: int
    until_s: float


Leases = Mapping[str, tuple[Lot, ...]]


def leases_of(memory: Any) -> dict[str, tuple[Lot, ...]]:
    """Returns the leases that the last plan left in its memory."""
    return {job: tuple(Lot(*lot) for lot in lots) for job, lots in memory["leases"].items()} if memory else {}


def as_memory(leases: Leases) -> dict[str, list[list[str | int | float]]]:
    """Returns the leases as JSON values."""
    return {job: [[lot.node, lot.workers, lot.until_s] for lot in lots] for job, lots in sorted(leases.items())}


def running(job: JobView, leases: Leases, view: View) -> tuple[Lot, ...]:
    """Returns the leases of a job that have not ended, as long as they are of what it holds and are enough to run."""
    lots = leases.get(job.id, ())
    if job.grant is None or any(node not in view.usable for node in job.grant.nodes):
        return ()
    leased: dict[str, int] = {}
    for lot in lots:
        leased[lot.node] = leased.get(lot.node, 0) + lot.workers
    if leased != {part.node: part.workers for part in job.grant.slices}:
        return ()
    kept = tuple(lot for lot in lots if lot.until_s > view.now_s + _INSTANT_S)
    return kept if sum(lot.workers for lot in kept) >= max(job.request.min_workers, 1) else ()


def held_under(job: JobView, lots: tuple[Lot, ...]) -> Grant | None:
    """Returns the part of a job's grant that these leases keep: the very grant if it is all, None if it is nothing."""
    if sum(lot.workers for lot in lots) == job.workers:
        return job.grant
    return Grant.of((lot.node, lot.workers) for lot in lots) if lots else None


def renewed(grant: Grant, kept: tuple[Lot, ...], until_s: float) -> tuple[Lot, ...]:
    """Returns the leases of a grant: those kept, and a new one for all that is not under them."""
    under: dict[str, int] = {}
    for lot in kept:
        under[lot.node] = under.get(lot.node, 0) + lot.workers
    new = ((part.node, part.workers - under.get(part.node, 0)) for part in grant.slices)
    return (*kept, *(Lot(node, workers, until_s) for node, workers in new if workers > 0))


def next_end_s(leases: Leases) -> float | None:
    """Returns when the first lease ends; None without any."""
    return min((lot.until_s for lots in leases.values() for lot in lots), default=None)
