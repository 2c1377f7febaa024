"""Selects the jobs that find an even place this round; the others pause, and the last of them may be shrunk.

Optimus places jobs in order of increasing demand on the fewest nodes that hold servers and workers evenly
(``models.placement`` has the theorem).  Counts that fit the cluster's sum need not fit its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from elastane.cluster import Grant
from elastane.policies.lowering import lower
from elastane.policies.lowering.place import place
from elastane.policies.lowering.room import Room
from elastane.policies.plan import Exact, Plan, Spread, Want, Wants
from elastane.policies.view import Ability, JobView, View, has

_TRIALS = 4


def counts_may_not_fit(view: View, wants: Mapping[str, Want]) -> bool:
    """Tells whether wants that fit by count might find no place: even layouts, several types, limited nodes."""
    if any(want.spread is Spread.BALANCED for want in wants.values()):
        return True
    if len({node.gpu_type for node in view.nodes.values()}) > 1:
        return True
    return any(view.jobs[i].request.max_nodes is not None or view.jobs[i].request.types for i in wants)


def settle(view: View, wants: Mapping[str, Want], shrink: bool, explain: dict[str, str]) -> Wants | Exact:
    """Returns the wants if all of them find a place; else the grants of those that do, with reasons for the rest.

    Jobs that stay where they are take their place first, so a placement changes what the next one finds.  Hence it is
    repeated on its own outcome until nothing moves any more, and then asked for exactly: the next round will agree.
    """
    grants = lower(Plan(Wants(wants)), view).grants
    if wants.keys() <= grants.keys():
        return Wants(wants)
    for _ in range(_TRIALS):
        kept, paused = _fitting(view, wants, grants, shrink)
        settled = lower(Plan(Wants(kept)), view).grants
        if settled == {job.id: job.grant for job in view.jobs.values() if job.grant}:
            break
        jobs = {i: replace(job, grant=settled.get(i)) for i, job in view.jobs.items()}
        view = replace(view, jobs=jobs)
        grants = lower(Plan(Wants(wants)), view).grants
    explain.update(paused)
    return Exact(settled)


def _fitting(
    view: View, wants: Mapping[str, Want], grants: Mapping[str, Grant], shrink: bool
) -> tuple[dict[str, Want], dict[str, str]]:
    """Returns the wants that found a place, the last of the others shrunk if it may be, and why the rest pauses.

    The shrunk one goes last, so that it takes no other job's place.
    """
    stuck = [i for i in wants if i not in grants]
    kept = {i: want for i, want in wants.items() if i in grants}
    room = Room.of(view)
    for job_id, grant in grants.items():
        room.take(grant, view.jobs[job_id].request)
    paused = {i: _paused(view.jobs[i], wants[i], room) for i in stuck}
    last = view.jobs[stuck[-1]] if stuck else None
    if last is not None and shrink and _may_shrink(last, alone=len(wants) == 1):
        smaller = _shrunk(room, last, wants[last.id])
        if smaller is not None:
            kept[last.id] = smaller
            del paused[last.id]
    return kept, paused


def _may_shrink(job: JobView, alone: bool) -> bool:
    """Tells whether a smaller size beats waiting: not for a job that could never be stopped to grow again."""
    stoppable = job.request.preemptible and has(job.abilities, Ability.SUSPEND)
    return has(job.abilities, Ability.RESIZE) and (stoppable or alone)


def _shrunk(room: Room, job: JobView, want: Want) -> Want | None:
    """Removes tasks, always of the more numerous kind, until the want fits evenly; None if it never does."""
    least = max(job.request.min_workers, 1)
    servers, workers = want.servers, want.workers
    while workers > least or servers > 1:
        if servers > 1 and (servers >= workers or workers <= least):
            servers -= 1
        else:
            workers -= 1
        want = replace(want, servers=servers, workers=workers)
        if place(room, job.request, want) is not None:
            return want
    return None


def _paused(job: JobView, want: Want, room: Room) -> str:
    """Explains why a job waits: what it should have had, and how many workers the emptiest node still takes."""
    most = max((room.workers_fit(node, job.request) for node in room.nodes), default=0)
    tasks, how = f"{want.workers} workers", "together"
    if want.servers:
        tasks, how = f"{want.servers} servers and {tasks}", "evenly"
    return (
        f"{tasks} stand {how} on no set of nodes this round "
        f"(the emptiest node has room for {most} of its workers)"
    )
