"""From what the control plane holds to what a policy sees, and from its plan to grants that can be had now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from elastane.cluster import Grant, Node
from elastane.policies.contract import Policy
from elastane.policies.view import Info, JobState, JobView, Tenant, View, has, masked
from elastane.service.control.active_job import LiveJob
from elastane.service.control.job_measurements import fit_together
from elastane.service.control.near_end import left_alone
from elastane.service.control.quotas import Allowance, allowances
from elastane.service.control.requested_places import as_it_is, place_is_taken, place_of, words
from elastane.service.messages import QuotaInfo


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything a decision is made from, besides the jobs."""

    now_s: float
    nodes: Mapping[str, Node]
    quotas: Mapping[str, QuotaInfo]
    memory: object = None
    seed: int = 0
    finished_service: tuple[float, ...] = ()
    min_run_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A view, and why some jobs are not in it."""

    view: View
    withheld: Mapping[str, str]


def build_view(
    scene: Scene,
    jobs: Iterable[LiveJob],
    trigger: str,
    policy: Policy,
    patient: frozenset[str] = frozenset(),
) -> Seen:
    """What this policy may see now; ``patient`` jobs go on as they are, whatever their owners have asked for."""
    total = sum(node.gpus for node in scene.nodes.values())
    accelerator = next((node.gpu_type for node in scene.nodes.values()), "cpu")
    withheld: dict[str, str] = {}
    views: dict[str, JobView] = {}
    jobs = sorted(jobs, key=_precedence)
    if has(policy.needs.info, Info.SPEED):
        fit_together(job.learned for job in jobs)
    for job in jobs:
        if job.row.held and not job.holding:
            withheld[job.id] = "its owner put it on hold; 'elastane resume' lets it go on"
            continue
        if job.retry_s > scene.now_s:
            withheld[job.id] = f"it failed and is tried again in {job.retry_s - scene.now_s:.0f} s"
            continue
        most = int(total / job.worker.gpus) if job.worker.gpus else total
        view = left_alone(job, job.view(most, accelerator), scene.now_s)
        views[job.id] = as_it_is(job, view) if job.id in patient else view
    for job in jobs:
        if job.row.pinned_node is not None and job.id in views and job.id not in patient and not job.leaving:
            _put(job, jobs, views, withheld, scene.nodes)
    limits = allowances(scene.quotas.values(), views, total)
    for allowance, borrowed in limits.values():
        _keep_within(allowance, borrowed, views, withheld)
    views = {job: _within_bounds(view) for job, view in views.items()}
    tenants = {
        name: Tenant(quota.weight, quota.slots + limits[name][1] if quota.slots is not None else None)
        for name, quota in scene.quotas.items()
    }
    view_ = View(
        now_s=scene.now_s,
        jobs=views,
        nodes=scene.nodes,
        trigger=trigger,
        tenants=tenants,
        memory=scene.memory,
        seed=scene.seed,
        finished_service_gpu_s=scene.finished_service,
        min_run_s=scene.min_run_s,
    )
    return Seen(masked(view_, policy.needs.info), withheld)


def _precedence(job: LiveJob) -> tuple[bool, int, float, int]:
    """Who comes first within a quota: who holds something, then by priority and age."""
    return (not job.holding, -job.spec.priority, job.row.submitted_s, job.row.number)


def _put(
    job: LiveJob,
    jobs: Sequence[LiveJob],
    views: dict[str, JobView],
    withheld: dict[str, str],
    nodes: Mapping[str, Node],
) -> None:
    """Show a job where its owner put it, if that place can be had."""
    view = views[job.id]
    place = place_of(job, view)
    if not place_is_taken(place, view, views.values(), nodes):
        views[job.id] = replace(view, grant=place)
    elif job.row.grant is not None:
        views[job.id] = as_it_is(job, view)
    else:
        withheld[job.id] = words(job, jobs, nodes)
        del views[job.id]


def _within_bounds(view: JobView) -> JobView:
    """As if it had given up what it may not have, or all of what is not enough: to stay is no choice for a policy."""
    most = max(view.request.max_workers, view.request.workers)
    if view.grant is None or view.pinned or view.request.min_workers <= view.workers <= most:
        return view
    if view.workers < view.request.min_workers:
        return replace(view, grant=None, state=JobState.SUSPENDED)
    counts, left = [], most
    for part in sorted(view.grant.slices, key=lambda part: -part.workers):
        counts.append((part.node, min(part.workers, left)))
        left -= counts[-1][1]
    return replace(view, grant=Grant.of(counts))


def _keep_within(
    allowance: Allowance, borrowed: int, views: dict[str, JobView], withheld: dict[str, str]
) -> None:
    """Leave out whom there is no room for; what the others may have beyond their least is shared evenly."""
    growing = dict[str, int]()
    for view in [view for view in views.values() if view.tenant == allowance.quota.tenant]:
        fixed = view.pinned and view.state is JobState.RUNNING
        need = view.request.gpus_of(view.workers if fixed else view.request.min_workers)
        if not fixed and not allowance.admits(need, view):
            withheld[view.id] = allowance.refusal(borrowed, view)
            del views[view.id]
            continue
        allowance.take(need, view)
        if not fixed:
            growing[view.id] = view.request.min_workers
    for job, most in _shared(allowance.left, growing, views).items():
        view = views[job]
        if most < view.request.max_workers:
            views[job] = replace(view, request=replace(view.request, max_workers=most))


def _shared(left: int, least: Mapping[str, int], views: Mapping[str, JobView]) -> dict[str, int]:
    """The most workers each may have, so that all together take no more than is left."""
    most, open_ = dict(least), list(least)
    while open_:
        for job in list(open_):
            request = views[job].request
            each = max(1, request.gpus_of(1))
            if most[job] >= request.max_workers or each > left:
                open_.remove(job)
                continue
            most[job] += 1
            left -= each
    return most
