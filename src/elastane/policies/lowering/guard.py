"""Checks grants before they become reality: no plan, however wrong, may break the cluster's rules."""

from __future__ import annotations

from collections.abc import Mapping

from elastane.cluster import Grant, Node
from elastane.policies.lowering.room import Room
from elastane.policies.view import Ability, JobView, View, has


def guard(grants: Mapping[str, Grant], view: View) -> tuple[dict[str, Grant], dict[str, str]]:
    """Returns the grants that may stand, and for each job whose change was refused, why.

    A violation drops that job's change only: it keeps what it had if that still fits, otherwise it waits.
    """
    refused = {job_id: "no such job" for job_id in grants if job_id not in view.jobs}
    claims: list[tuple[JobView, Grant]] = []
    for job in view.jobs.values():
        wanted = grants.get(job.id)
        problem = _problem(job, wanted, view)
        if problem:
            refused[job.id], wanted = problem, job.grant
        elif wanted is None and view.too_young(job):
            wanted = _least(job)
        if wanted is not None:
            claims.append((job, wanted))
    room = Room.of(view)
    safe: dict[str, Grant] = {}
    for job, wanted in _by_right(claims, grants, view):
        allowed = [grant for grant in (wanted, job.grant) if grant and room.holds(grant, job.request)]
        if wanted not in allowed:
            refused.setdefault(job.id, _no_room(wanted, view.nodes))
        if allowed:
            room.take(allowed[0], job.request)
            safe[job.id] = allowed[0]
    return safe, refused


def _least(job: JobView) -> Grant:
    """Returns the job's grant cut down to its least size; the whole grant if it has parameter servers."""
    assert job.grant is not None
    left = job.request.min_workers if has(job.abilities, Ability.RESIZE) else job.grant.workers
    counts = []
    for part in job.grant.slices:
        counts.append((part.node, min(part.workers, left)))
        left -= counts[-1][1]
    return job.grant if left or job.grant.servers else Grant.of(counts)


def _by_right(
    claims: list[tuple[JobView, Grant]], grants: Mapping[str, Grant], view: View
) -> list[tuple[JobView, Grant]]:
    """Sorts claims: pinned jobs, then those that stay as they are, then changes in the order of the plan.

    Where a plan gives the same GPUs twice, the newcomer is the offender, not the one who has them already.
    """
    rank = {job_id: number for number, job_id in enumerate(grants)}

    def right(claim: tuple[JobView, Grant]) -> tuple[bool, bool, int, str]:
        job, wanted = claim
        stays = view.must_keep(job) or (job.id not in grants and view.too_young(job))
        return not stays, wanted != job.grant, rank.get(job.id, len(rank)), job.id

    return sorted(claims, key=right)


def _problem(job: JobView, wanted: Grant | None, view: View) -> str:
    """Says what is wrong with a wanted grant by itself, whatever other jobs get; empty if nothing is."""
    if wanted == job.grant:
        return ""
    if view.must_keep(job):
        return "it cannot be suspended" + (", so its grant stays as it is" if wanted else "")
    if wanted is None:
        return ""
    return _malformed(wanted, view.nodes) or _size_problem(job, wanted) or _place_problem(job, wanted, view)


def _malformed(wanted: Grant, nodes: Mapping[str, Node]) -> str:
    if len(set(wanted.nodes)) < len(wanted.slices):
        return "its grant names a node twice"
    for part in wanted.slices:
        empty = part.workers < 0 or part.servers < 0 or part.workers + part.servers == 0
        if empty or not 0.0 < part.share <= 1.0:
            return f"its grant on {part.node} has impossible numbers"
        known = range(nodes[part.node].gpus) if part.node in nodes else ()
        if part.devices and (len(set(part.devices)) < len(part.devices) or not set(part.devices) <= {*known}):
            return f"its grant names devices that {part.node} does not have"
    return ""


def _size_problem(job: JobView, wanted: Grant) -> str:
    request = job.request
    if not max(request.min_workers, 1) <= wanted.workers <= max(request.max_workers, request.workers):
        return f"{wanted.workers} workers are outside [{request.min_workers}, {request.max_workers}]"
    if wanted.workers != request.workers and not has(job.abilities, Ability.RESIZE):
        return f"it cannot be resized to {wanted.workers} workers (it asked for {request.workers})"
    if wanted.servers > request.max_servers:
        return f"{wanted.servers} servers are more than its {request.max_servers}"
    return ""


def _place_problem(job: JobView, wanted: Grant, view: View) -> str:
    request = job.request
    types = sorted({view.nodes[node].gpu_type for node in wanted.nodes if node in view.nodes})
    if len(types) > 1:
        return f"its workers would stand on different accelerators ({', '.join(types)})"
    if request.types and not set(types) <= set(request.types):
        return f"it asked for {' or '.join(request.types)}, not {types[0]}"
    if request.max_nodes is not None and len(wanted.slices) > request.max_nodes:
        return f"{len(wanted.slices)} nodes are more than its {request.max_nodes}"
    held = set(job.grant.nodes) if job.grant else set()
    # A job whose node is gone or going has to start again anyway, so that is not a move.
    usable = {i for i, node in view.nodes.items() if not node.draining}
    moved = bool(held) and held <= usable and not set(wanted.nodes) <= held
    return "it cannot be moved" if moved and not has(job.abilities, Ability.MIGRATE) else ""


def _no_room(wanted: Grant, nodes: Mapping[str, Node]) -> str:
    gone = [node for node in wanted.nodes if node not in nodes or nodes[node].draining]
    if gone:
        return f"{', '.join(gone)} cannot be used any more"
    workers = "1 worker" if wanted.workers == 1 else f"{wanted.workers} workers"
    return f"there is no room for {workers} on {', '.join(wanted.nodes)}"
