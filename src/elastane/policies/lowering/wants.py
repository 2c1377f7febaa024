"""Lowers wanted counts to grants: what need not move stays, the rest is placed in the order of the plan."""

from __future__ import annotations

from collections.abc import Mapping

from elastane.cluster import Grant
from elastane.policies.lowering.place import place
from elastane.policies.lowering.room import Room
from elastane.policies.plan import Want
from elastane.policies.reasons import Gpus, are, said
from elastane.policies.view import Ability, JobView, View, has


def place_wants(
    want: Mapping[str, Want], view: View, reasons: dict[str, str], held: Mapping[str, Grant] | None = None
) -> dict[str, Grant]:
    """Returns the grants for these wants; ``reasons`` gets why a job found no place.

    ``held`` stands in for the grants of the view where a caller tries a plan on top of another.
    """
    room = Room.of(view)
    grants: dict[str, Grant] = {}
    for job in view.jobs.values():
        grant = job.grant if held is None else held.get(job.id)
        if grant and _stays(job, grant, want.get(job.id), view) and room.holds(grant, job.request):
            grants[job.id] = grant
            room.take(grant, job.request)
    for job_id, wish in want.items():
        if job_id in grants or job_id not in view.jobs or wish.workers <= 0:
            continue
        job = view.jobs[job_id]
        request = job.request
        found = job.grant if _stuck(job, view) else place(room, request, wish)
        if found is None or not room.holds(found, request):
            reasons[job_id] = _no_place(wish, request.gpus_of(wish.workers), room.total_free_gpus())
            continue
        room.take(found, request)
        grants[job_id] = found
    return grants


def _stays(job: JobView, grant: Grant, want: Want | None, view: View) -> bool:
    """Tells whether a job keeps its grant: that is what it should have, or all it can have."""
    if view.must_keep(job):
        return True
    if want is None or want.workers <= 0:
        return False
    if _stuck(job, view):
        return True
    if grant.workers != want.workers or grant.servers != want.servers:
        return False
    for part in grant.slices:
        node = view.usable.get(part.node)
        if node is None or (want.gpu_type is not None and want.gpu_type != node.gpu_type):
            return False
    return True


def _stuck(job: JobView, view: View) -> bool:
    """Tells whether the job can run only where it is: it cannot migrate, and its nodes are usable."""
    if job.grant is None or has(job.abilities, Ability.MIGRATE):
        return False
    return all(part.node in view.usable for part in job.grant.slices)


def _no_place(wish: Want, need: int, free: int) -> str:
    if free < need:
        return said("needs ", Gpus(need), f", {are(free)} free")
    kind = f" of type {wish.gpu_type}" if wish.gpu_type else ""
    return said("needs ", Gpus(need), f"{kind} ({wish.spread.value}); {are(free)} free but not so placed")
