"""Chooses nodes for what an auction gave: leased workers stay, then those that need not move, then the fewest nodes."""

from __future__ import annotations

from dataclasses import replace

from elastane.cluster import Grant
from elastane.policies.lowering.place import place
from elastane.policies.lowering.room import Room
from elastane.policies.plan import Spread, Want
from elastane.policies.view import JobView


def lay(
    job: JobView, workers: int, gpu_type: str, fixed: Grant | None, room: Room, stuck: bool
) -> Grant | None:
    """Returns a grant of so many workers and takes its GPUs; None if there is no room for them.

    ``fixed`` is the part of it that it keeps, already taken; a job that is ``stuck`` gets what it holds, or nothing.
    """
    if stuck:
        ways = [_whole(job.grant, job, room)] if fixed is None else [fixed]
    else:
        ways = [_around(job, workers, gpu_type, fixed, room)]
        if fixed is None:
            ways.append(place(room, job.request, Want(workers, gpu_type=gpu_type, spread=Spread.BEST_FIT)))
    limit = job.request.max_nodes
    fitting = [way for way in ways if way is not None and (limit is None or len(way.slices) <= limit)]
    if not fitting:
        return None
    found = min(fitting, key=lambda way: len(way.slices))  # the first of equals, which moves nobody
    room.take(_beyond(found, fixed), job.request)
    return _as_held(found, job)


def _whole(grant: Grant | None, job: JobView, room: Room) -> Grant | None:
    return grant if grant is not None and room.holds(grant, job.request) else None


def _around(job: JobView, workers: int, gpu_type: str, fixed: Grant | None, room: Room) -> Grant | None:
    """Returns a grant on the nodes the job stands on, as far as they go, and on others for the rest."""
    counts = {part.node: part.workers for part in fixed.slices} if fixed else {}
    held = job.grant.slices if job.grant else ()
    own = [part for part in held if part.node in room.nodes and room.nodes[part.node].gpu_type == gpu_type]
    own = [part for part in own if not room.nodes[part.node].draining]
    if not own and not counts:
        return None
    missing = workers - sum(counts.values())
    for part in sorted(own, key=lambda part: (-part.workers, part.node)):  # what it had, whole machines first
        missing -= _add(
            counts, part.node, min(part.workers - counts.get(part.node, 0), missing), job, room, fixed
        )
    for node in sorted(counts, key=lambda node: (-counts[node], node)):  # more of the same nodes
        missing -= _add(counts, node, missing, job, room, fixed)
    if missing > 0:
        rest = _elsewhere(counts, missing, gpu_type, job, room)
        if rest is None:
            return None
        counts.update((part.node, part.workers) for part in rest.slices)
    return Grant.of(counts.items())


def _add(counts: dict[str, int], node: str, most: int, job: JobView, room: Room, fixed: Grant | None) -> int:
    """Puts up to so many more workers on a node, as far as it has room; returns how many."""
    under = sum(part.workers for part in fixed.slices if part.node == node) if fixed else 0
    free = room.workers_fit(node, job.request) - (counts.get(node, 0) - under)
    more = min(most, free)
    if more <= 0:
        return 0
    counts[node] = counts.get(node, 0) + more
    return more


def _elsewhere(counts: dict[str, int], workers: int, gpu_type: str, job: JobView, room: Room) -> Grant | None:
    """Returns a place for the rest on nodes that the job is not on yet."""
    blocked = {node: room.free_gpus[node] for node in counts}
    room.free_gpus.update(dict.fromkeys(counts, 0))
    try:
        return place(room, job.request, Want(workers, gpu_type=gpu_type, spread=Spread.BEST_FIT))
    finally:
        room.free_gpus.update(blocked)


def _beyond(grant: Grant, fixed: Grant | None) -> Grant:
    under = {part.node: part.workers for part in fixed.slices} if fixed else {}
    return Grant.of((part.node, part.workers - under.get(part.node, 0)) for part in grant.slices)


def _as_held(grant: Grant, job: JobView) -> Grant:
    """Returns the very grant that the job holds, where the new one is of the same workers on the same nodes."""
    held = job.grant
    if held is None or {(p.node, p.workers) for p in grant.slices} != {
        (p.node, p.workers) for p in held.slices
    }:
        return grant
    return replace(held, lease_until_s=None)
