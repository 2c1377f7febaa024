"""Which jobs find an even place this round; the others pause, and the last of them may be made smaller.

Optimus places jobs in order of increasing demand on the fewest nodes that hold servers and workers evenly
(``models.placement`` has the theorem).  Counts that fit the cluster's sum need not fit its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from elastane.policies.lowering import lower
from elastane.policies.lowering.place import place
from elastane.policies.lowering.room import Room
from elastane.policies.plan import Plan, Spread, Want, Wants
from elastane.policies.view import Ability, JobView, View, has


def counts_may_not_fit(view: View, wants: Mapping[str, Want]) -> bool:
    """Whether wants that fit the cluster's sum might find no place: even layouts, several types, few nodes allowed."""
    if any(want.spread is Spread.BALANCED for want in wants.values()):
        return True
    if len({node.gpu_type for node in view.nodes.values()}) > 1:
        return True
    return any(view.jobs[i].request.max_nodes is not None or view.jobs[i].request.types for i in wants)


def settle(view: View, wants: Mapping[str, Want], shrink: bool, explain: dict[str, str]) -> dict[str, Want]:
    """The wants that can stand, after a trial of the very placement that will follow; reasons for the rest.

    A job that was made smaller goes last, so that it takes the place of nobody.
    """
    grants = lower(Plan(Wants(wants)), view).grants
    stuck = [i for i in wants if i not in grants]
    if not stuck:
        return dict(wants)
    kept = {i: want for i, want in wants.items() if i not in stuck}
    room = Room.of(view)
    for job_id, grant in grants.items():
        room.take(grant, view.jobs[job_id].request)
    for job_id in stuck:
        explain[job_id] = _paused(view.jobs[job_id], wants[job_id], room)
    last = view.jobs[stuck[-1]]
    if shrink and _may_shrink(last, alone=len(wants) == 1):
        smaller = _shrunk(room, last, wants[stuck[-1]])
        if smaller is not None:
            kept[stuck[-1]] = smaller
            del explain[stuck[-1]]
    return kept


def _may_shrink(job: JobView, alone: bool) -> bool:
    """Whether a smaller size is better than waiting: not where the job could never be stopped to outgrow it."""
    stoppable = job.request.preemptible and has(job.abilities, Ability.SUSPEND)
    return has(job.abilities, Ability.RESIZE) and (stoppable or alone)


def _shrunk(room: Room, job: JobView, want: Want) -> Want | None:
    """The want with tasks taken away, always from the more numerous kind, until it fits evenly."""
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
    """Why it waits: what it should have had, and how many of its workers the emptiest node still takes."""
    most = max((room.workers_fit(node, job.request) for node in room.nodes), default=0)
    tasks, how = f"{want.workers} workers", "together"
    if want.servers:
        tasks, how = f"{want.servers} servers and {tasks}", "evenly"
    return (
        f"{tasks} stand {how} on no set of nodes this round "
        f"(the emptiest node has room for {most} of its workers)"
    )
