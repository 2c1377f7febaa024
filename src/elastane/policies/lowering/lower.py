"""From a plan, at whatever level of detail, to grants that are safe to apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from elastane.cluster import Grant
from elastane.policies.lowering.guard import guard
from elastane.policies.lowering.place import place
from elastane.policies.lowering.room import Room, stands
from elastane.policies.lowering.shares import realise
from elastane.policies.plan import Exact, Fill, Order, Plan, Shares, Verdict, Want, Wants
from elastane.policies.view import JobView, View


@dataclass(frozen=True, slots=True)
class Lowered:
    """What shall be granted, why each job without a grant has none, and who is turned away for good."""

    grants: dict[str, Grant]
    waiting: dict[str, str]
    rejected: dict[str, str] = field(default_factory=dict)


def lower(plan: Plan, view: View) -> Lowered:
    """Lay the plan out on nodes and check it; explanations of the policy win over generic ones."""
    intent = plan.intent
    waiting: dict[str, str] = {}
    rejected = {i: a.reason for i, a in plan.admissions.items() if a.verdict is Verdict.REJECT}
    if rejected:  # they hold nothing any more, pinned or not
        view = replace(view, jobs={i: job for i, job in view.jobs.items() if i not in rejected})
    if isinstance(intent, Shares):
        intent = realise(intent, view)
    if isinstance(intent, Order):
        grants = _place_order(intent, view, waiting)
    elif isinstance(intent, Wants):
        grants = _place_wants(intent.want, view, waiting)
    else:
        grants = dict(intent.grants) if isinstance(intent, Exact) else {}
    safe, refused = guard(grants, view)
    for job_id, reason in refused.items():
        if job_id not in safe:
            waiting[job_id] = reason
    for job_id, reason in plan.explain.items():
        if job_id not in safe:
            waiting[job_id] = reason
    return Lowered(safe, waiting, rejected)


def _keeps(job: JobView, want: Want, view: View) -> bool:
    """Whether what the job holds already is what it should have."""
    grant = job.grant
    if grant is None or grant.workers != want.workers or grant.servers != want.servers:
        return False
    nodes = [view.nodes.get(node) for node in grant.nodes]
    return all(
        node is not None and not node.draining and want.gpu_type in (None, node.gpu_type) for node in nodes
    )


def _place_wants(want: Mapping[str, Want], view: View, waiting: dict[str, str]) -> dict[str, Grant]:
    """Unchanged jobs stay where they are, the others are placed in the order given."""
    room = Room(view.nodes)
    grants: dict[str, Grant] = {}
    for job in view.jobs.values():
        stays = job.pinned or (job.id in want and _keeps(job, want[job.id], view))
        if stays and job.grant and stands(room, job):
            grants[job.id] = job.grant
            room.take(job.grant, job.request)
    for job_id, wish in want.items():
        if job_id in grants or job_id not in view.jobs or wish.workers <= 0:
            continue
        request = view.jobs[job_id].request
        grant = place(room, request, wish)
        if grant is None:
            waiting[job_id] = _no_place(wish, room)
            continue
        room.take(grant, request)
        grants[job_id] = grant
    return grants


def _no_place(wish: Want, room: Room) -> str:
    free = room.total_free_gpus()
    if free < wish.workers:
        return f"needs {wish.workers} GPUs, {free} are free"
    return f"needs {wish.workers} GPUs {wish.spread.value}; {free} are free but not so placed"


def _place_order(order: Order, view: View, waiting: dict[str, str]) -> dict[str, Grant]:
    """Fill by count, place, and fill again without those that found no place (so nobody yields in vain)."""
    unplaced: dict[str, str] = {}
    while True:
        waiting.clear()
        waiting.update(unplaced)
        want = _fill(order, view, unplaced, waiting)
        failed: dict[str, str] = {}
        grants = _place_wants(want, view, failed)
        newly = {i: why for i, why in failed.items() if i not in unplaced}
        if not newly:
            return grants
        first = next(i for i in order.jobs if i in newly)
        unplaced[first] = newly[first]


def _fill(order: Order, view: View, unplaced: Mapping[str, str], waiting: dict[str, str]) -> dict[str, Want]:
    """Who may run, by GPU count alone."""
    pinned = {job.id: int(job.workers * job.request.worker.gpus) for job in view.jobs.values() if job.pinned}
    free = view.total_gpus - sum(pinned.values())
    want: dict[str, Want] = {}
    blocked_by = ""
    for position, job_id in enumerate(order.jobs):
        job = view.jobs.get(job_id)
        if job is None:
            continue
        need = int(job.request.workers * job.request.worker.gpus)
        spread = order.spread_of.get(job_id, order.spread)
        if job_id in pinned:
            want[job_id] = Want(job.workers, spread=spread)
        elif blocked_by:
            waiting[job_id] = f"position {position + 1}; {blocked_by} is first and nobody may overtake it"
        elif job_id in unplaced or need > free:
            waiting.setdefault(job_id, f"needs {need} GPUs, {free} are left for it")
            blocked_by = job_id if order.fill is Fill.STRICT else ""
        else:
            free -= need
            want[job_id] = Want(job.request.workers, spread=spread)
    return want
