"""Gavel's round mechanism (OSDI'20, §5): who runs in this round, on which type, so that time received tracks shares.

The priority of job j on type τ is X[j,τ] / f[j,τ], where f is the part of all time given on τ that j received.  Type by
type the jobs are taken by (priority, shortfall, X), as long as they fit and have no place yet.  Wide jobs are placed
first, and whoever stays on its type keeps its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from elastane.policies.plan import Received, Shares, Want, Wants
from elastane.policies.view import Ability, JobView, View, has

_NEVER_RAN = 1e9
"""The priority of a whole share that has received nothing at all: finite, so that shares still count."""


def realise_round(shares: Shares, received: Received, view: View, waiting: dict[str, str]) -> Wants:
    """What the jobs of this round want; ``waiting`` gets why the others that have a share do not run."""
    free = free_by_type(view)
    chosen: dict[str, str] = {}
    for kind in received.types:
        for job in _by_priority(shares, received, view, kind):
            need = job.request.gpus_of(job.request.workers)
            if job.id not in chosen and need <= free.get(kind, 0):
                free[kind] -= need
                chosen[job.id] = kind
    for job_id, fractions in shares.fraction.items():
        if job_id in view.jobs and job_id not in chosen and sum(fractions.values()) > 0.0:
            waiting[job_id] = (
                f"its share is {sum(fractions.values()):.0%} of the time; others are further behind theirs this round"
            )
    widest_first = sorted(chosen, key=lambda i: (-view.jobs[i].request.workers, view.jobs[i].submit_s, i))
    return Wants({i: Want(view.jobs[i].request.workers, gpu_type=chosen[i]) for i in widest_first})


def free_by_type(view: View) -> dict[str, int]:
    """GPUs of each type that no pinned job keeps."""
    free = {node.gpu_type: 0 for node in view.nodes.values()}
    for node in view.nodes.values():
        free[node.gpu_type] += 0 if node.draining else node.gpus
    for job in view.jobs.values():
        for part in job.grant.slices if job.grant and view.must_keep(job) else ():
            node = view.nodes[part.node]
            free[node.gpu_type] -= 0 if node.draining else job.request.gpus_of(part.workers)
    return free


def _by_priority(shares: Shares, received: Received, view: View, kind: str) -> Iterator[JobView]:
    """The jobs that may run on the type, most urgent first; ties by arrival."""
    given_s = sum(seconds.get(kind, 0.0) for seconds in received.seconds.values())
    keyed = []
    for job_id, fractions in shares.fraction.items():
        job = view.jobs.get(job_id)
        if job is None or kind not in fractions or not _may_use(job, kind, view):
            continue
        share = fractions[kind]
        if share > 0.0 or received.fill:
            own_s = received.seconds.get(job_id, {}).get(kind, 0.0)
            priority = share * given_s / own_s if own_s > 0.0 else share * _NEVER_RAN
            short_s = received.short_s.get(job_id, {}).get(kind, 0.0)
            keyed.append((-priority, -short_s, -share, job.submit_s, job_id))
    return (view.jobs[key[-1]] for key in sorted(keyed))


def _may_use(job: JobView, kind: str, view: View) -> bool:
    """Whether the type is one that the job accepts, and can still get to."""
    if view.must_keep(job) or (job.request.types and kind not in job.request.types):
        return False
    if job.grant is None or has(job.abilities, Ability.MIGRATE):
        return True
    return all(view.nodes[part.node].gpu_type == kind for part in job.grant.slices if part.node in view.nodes)
