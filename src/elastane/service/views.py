"""From what the control plane holds to what a policy sees, and from its plan to grants that can be had now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from elastane.cluster import Grant, Node
from elastane.policies.contract import Policy
from elastane.policies.view import JobView, Tenant, View, masked
from elastane.service.live import LiveJob
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


@dataclass(frozen=True, slots=True)
class Seen:
    """A view, and why some jobs are not in it."""

    view: View
    withheld: Mapping[str, str]


def build_view(scene: Scene, jobs: Iterable[LiveJob], trigger: str, policy: Policy) -> Seen:
    """What this policy may see now."""
    total = sum(node.gpus for node in scene.nodes.values())
    accelerator = next((node.gpu_type for node in scene.nodes.values()), "cpu")
    withheld: dict[str, str] = {}
    views: dict[str, JobView] = {}
    room = {tenant: quota.slots for tenant, quota in scene.quotas.items() if quota.slots is not None}
    for job in sorted(jobs, key=_precedence):
        if job.row.held and not job.holding:
            withheld[job.id] = "its owner put it on hold; 'elastane resume' lets it go on"
            continue
        if job.retry_s > scene.now_s:
            withheld[job.id] = f"it failed and is tried again in {job.retry_s - scene.now_s:.0f} s"
            continue
        most = int(total / job.spec.worker.gpus) if job.spec.worker.gpus else total
        view = job.view(most, accelerator)
        if job.row.pinned_node is not None:
            view = replace(view, grant=_pinned_grant(job, view))
        left = room.get(job.row.tenant)
        if left is not None:
            capped = _within(view, left)
            if capped is None:
                withheld[job.id] = (
                    f"tenant {job.row.tenant} is at its quota of {scene.quotas[job.row.tenant].slots} slots"
                )
                continue
            view = capped
            room[job.row.tenant] = left - view.request.gpus_of(view.request.min_workers)
        views[job.id] = view
    tenants = {name: Tenant(quota.weight, quota.slots) for name, quota in scene.quotas.items()}
    view_ = View(
        now_s=scene.now_s,
        jobs=views,
        nodes=scene.nodes,
        trigger=trigger,
        tenants=tenants,
        memory=scene.memory,
        seed=scene.seed,
        finished_service_gpu_s=scene.finished_service,
    )
    return Seen(masked(view_, policy.needs.info), withheld)


def _precedence(job: LiveJob) -> tuple[bool, int, float, int]:
    """Who comes first within a quota: who holds something, then by priority and age."""
    return (not job.holding, -job.spec.priority, job.row.submitted_s, job.row.number)


def _pinned_grant(job: LiveJob, view: JobView) -> Grant | None:
    node = job.row.pinned_node
    assert node is not None
    held = view.grant.workers if view.grant else view.request.min_workers
    return Grant.of([(node, held)])


def _within(view: JobView, left: int) -> JobView | None:
    """The job with no more workers than its tenant may still have; None when not even its least fit."""
    per_worker = max(1, view.request.gpus_of(1))
    most = max(left, 0) // per_worker
    if most < view.request.min_workers:
        return view if view.grant is not None and not view.request.preemptible else None
    if most >= view.request.max_workers:
        return view
    return replace(view, request=replace(view.request, max_workers=most))


def conflicts(places: Mapping[str, int], per_worker: int, free: Mapping[str, int]) -> bool:
    """Whether so many workers would stand where somebody else has not left yet."""
    return any(count * per_worker > free.get(node, 0) for node, count in places.items())
