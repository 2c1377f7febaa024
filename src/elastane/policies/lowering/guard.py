"""The last check before a plan becomes reality: no plan, however wrong, may break the cluster's rules."""

from __future__ import annotations

from collections.abc import Mapping

from elastane.cluster import Grant
from elastane.policies.lowering.room import Room
from elastane.policies.view import Ability, JobView, View, has


def guard(grants: Mapping[str, Grant], view: View) -> tuple[dict[str, Grant], dict[str, str]]:
    """The grants that may stand, and for each job whose change was refused, why.

    A violation drops that job's change only: it keeps what it had if that still fits, otherwise it waits.
    """
    refused: dict[str, str] = {}
    room = Room(view.nodes)
    safe: dict[str, Grant] = {}
    for job in sorted(view.jobs.values(), key=lambda job: not job.pinned):
        wanted = grants.get(job.id)
        if wanted is not None and wanted != job.grant:
            problem = _problem(job, wanted)
            if problem:
                refused[job.id], wanted = problem, job.grant
        elif wanted is None and job.pinned:
            refused[job.id], wanted = "it cannot be suspended", job.grant
        if wanted is None:
            continue
        if not room.holds(wanted, job.request):
            refused.setdefault(job.id, f"{wanted.workers} workers on {', '.join(wanted.nodes)} do not fit")
            wanted = job.grant if job.grant and room.holds(job.grant, job.request) else None
        if wanted is not None:
            room.take(wanted, job.request)
            safe[job.id] = wanted
    for job_id in grants:
        if job_id not in view.jobs:
            refused[job_id] = "no such job"
    return safe, refused


def _problem(job: JobView, wanted: Grant) -> str:
    request = job.request
    if job.pinned:
        return "it cannot be suspended, so its grant stays as it is"
    if not request.min_workers <= wanted.workers <= max(request.max_workers, request.workers):
        return f"{wanted.workers} workers are outside [{request.min_workers}, {request.max_workers}]"
    if wanted.workers != request.workers and not has(job.abilities, Ability.RESIZE):
        return f"it cannot be resized to {wanted.workers} workers (it asked for {request.workers})"
    if wanted.servers > request.max_servers:
        return f"{wanted.servers} servers are more than its {request.max_servers}"
    if job.grant is not None and not has(job.abilities, Ability.MIGRATE):
        return "it cannot be moved"
    return ""
