"""Lowers an order to grants: fills by count, places, and fills again without the jobs that found no place."""

from __future__ import annotations

from collections.abc import Mapping

from elastane.cluster import Grant
from elastane.policies.lowering.wants import place_wants
from elastane.policies.plan import Fill, Order, Want
from elastane.policies.reasons import Gpus, Job, are, said
from elastane.policies.view import View

_MOST_REPETITIONS = 10


def place_order(order: Order, view: View, reasons: dict[str, str]) -> dict[str, Grant]:
    """Returns the grants for an order; ``reasons`` gets why each job that is in it waits.

    Where a job found no place, the answer is laid out again on top of itself until nothing changes: otherwise the
    next decision might find a place that this one made, and jobs would move although nothing happened.  A
    repetition can only help the first job that it treats differently, so there is an end, and it comes soon.
    """
    # A policy that looks ahead at its own order, and the lowering after it, ask the same question.
    kept = view.scratch.get("placed")
    if kept is not None and kept[0] is order:
        reasons.update(kept[2])
        return dict(kept[1])
    grants = _place_order(order, view, reasons)
    view.scratch["placed"] = (order, dict(grants), dict(reasons))
    return grants


def _place_order(order: Order, view: View, reasons: dict[str, str]) -> dict[str, Grant]:
    never = _never(order, view)
    held = {job.id: job.grant for job in view.jobs.values() if job.grant}
    for _ in range(_MOST_REPETITIONS):
        grants, unplaced = _settle(order, view, held, never, reasons)
        if len(unplaced) == len(never) or grants == held:
            break
        held = grants
    return grants


def _never(order: Order, view: View) -> dict[str, str]:
    """Returns jobs, with reasons, that could not stand on these nodes even alone; so they cost no repetition."""
    asked = {i: view.jobs[i].request for i in order.jobs if i in view.jobs and not view.must_keep(view.jobs[i])}
    wishes = {(r.types, r.max_nodes, r.worker): r for r in asked.values()}
    reach = {wish: view.reach(request) for wish, request in wishes.items()}
    found = {}
    for job_id, request in asked.items():
        most = reach[request.types, request.max_nodes, request.worker]
        if request.workers > most:
            found[job_id] = f"needs {request.workers} workers; the nodes it may use hold {most} at most"
    return found


def _settle(
    order: Order, view: View, held: Mapping[str, Grant], never: Mapping[str, str], reasons: dict[str, str]
) -> tuple[dict[str, Grant], dict[str, str]]:
    """Fills and places, again and again, until every job that was filled in finds a place."""
    unplaced = dict(never)
    while True:
        reasons.clear()
        reasons.update(unplaced)
        want = _fill(order, view, unplaced, reasons)
        failed: dict[str, str] = {}
        grants = place_wants(want, view, failed, held)
        if not failed:
            return grants, unplaced
        unplaced.update(failed)


def _fill(order: Order, view: View, unplaced: Mapping[str, str], reasons: dict[str, str]) -> dict[str, Want]:
    """Selects the jobs that may run, by GPU count alone."""
    kept = {job.id: job.request.gpus_of(job.workers) for job in view.jobs.values() if view.must_keep(job)}
    free = view.total_gpus - sum(kept.values())
    want: dict[str, Want] = {}
    blocked_by = ""
    for position, job_id in enumerate(order.jobs):
        job = view.jobs.get(job_id)
        if job is None or job_id in kept or job_id in want:
            continue
        need = job.request.gpus_of(job.request.workers)
        if blocked_by:
            reasons[job_id] = said(
                f"position {position + 1}; ", Job(blocked_by), " is first and nobody may overtake it"
            )
        elif job_id in unplaced or need > free:
            reasons.setdefault(job_id, said("needs ", Gpus(need), f", {are(free)} left for it"))
            blocked_by = job_id if order.fill is Fill.STRICT else ""
        else:
            free -= need
            # Parameter-server jobs get a server for every worker, as the papers' own baselines do.
            servers = min(job.request.workers, job.request.max_servers) if job.request.server else 0
            spread = order.spread_of.get(job_id, order.spread)
            want[job_id] = Want(job.request.workers, servers, spread=spread)
    return want
