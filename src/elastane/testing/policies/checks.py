"""Each check states what must hold of one decision; it raises with the job, the numbers and the broken rule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from elastane.cluster import Grant
from elastane.policies.contract import Policy
from elastane.policies.lowering import Lowered, lower
from elastane.policies.lowering.lower import UNEXPLAINED
from elastane.policies.plan import Plan
from elastane.policies.reasons import Reason
from elastane.policies.view import Ability, JobView, View, has
from elastane.testing.policies.variants import applied, through_json


def decide(policy: Policy, view: View) -> tuple[Plan, Lowered]:
    """A decision and the grants it comes to."""
    plan = policy.decide(view)
    return plan, lower(plan, view)


def check_decision(plan: Plan, lowered: Lowered, view: View) -> None:
    """Everything that holds of any decision on any sane view."""
    check_limits(lowered.grants, view)
    check_nothing_refused(lowered)
    check_explained(lowered, view)
    check_mentions(plan, lowered, view)
    check_serialisable(plan)


def check_limits(grants: Mapping[str, Grant], view: View) -> None:
    """Capacity of every node, whole gangs, sizes, accelerator types and spread that each job allows (X-1)."""
    used: Counter[str] = Counter()
    for job_id, grant in grants.items():
        assert job_id in view.jobs, f"{job_id} was granted GPUs but is not in the view"
        for part in grant.slices:
            assert part.node in view.nodes, f"{job_id} was put on {part.node}, which is not in the view"
            used[part.node] += view.jobs[job_id].request.gpus_of(part.workers)
        check_grant(view.jobs[job_id], grant, view)
    for node, gpus in used.items():
        has_gpus = view.nodes[node].gpus
        assert gpus <= has_gpus, f"{gpus} GPUs are granted on {node}, which has {has_gpus}"


def check_grant(job: JobView, grant: Grant, view: View) -> None:
    """The limits of one job; what it holds already may stay whatever it is."""
    if grant == job.grant:
        return
    request, size = job.request, grant.workers
    assert not view.must_keep(job), f"{job.id} must keep {job.grant} but would get {grant}"
    most = max(request.max_workers, request.workers)
    assert request.min_workers <= size <= most, f"{job.id} would get {size} workers, not {request}"
    if not has(job.abilities, Ability.RESIZE):
        assert size == request.workers, f"{job.id} cannot be resized, but would get {size} workers: {request}"
    types = {view.nodes[node].gpu_type for node in grant.nodes}
    assert len(types) == 1, f"{job.id} would stand on {sorted(types)}"
    assert not request.types or types <= set(request.types), f"{job.id} would stand on {types}: {request}"
    assert len(grant.slices) <= (request.max_nodes or size), f"{job.id} would be spread too far: {grant}"
    draining = [node for node in grant.nodes if view.nodes[node].draining]
    assert not draining, f"{job.id} would start on {draining}, which is draining"


def check_nothing_refused(lowered: Lowered) -> None:
    """The guard is a safety net: a sound policy never falls into it."""
    assert not lowered.refused, f"the guard had to refuse changes: {lowered.refused}"


def check_explained(lowered: Lowered, view: View) -> None:
    """Every job without a grant is told why, and no job with one is."""
    assert lowered.waiting.keys() == view.jobs.keys() - lowered.grants.keys()
    for job_id, reason in lowered.waiting.items():
        assert reason.strip(), f"{job_id} waits for an empty reason"
        assert reason != UNEXPLAINED, f"{job_id} is not in the plan; say why in Plan.explain"


def check_mentions(plan: Plan, lowered: Lowered, view: View) -> None:
    """Jobs that a reason mentions are marked (``elastane.policies.reasons``): not everybody may be told their names."""
    verdicts = [admission.reason for admission in plan.admissions.values()]
    for reason in (*lowered.waiting.values(), *verdicts):
        plain = reason.parts if isinstance(reason, Reason) else (reason,)
        words = {word for part in plain if isinstance(part, str) for word in re.findall(r"[\w-]+", part)}
        unmarked = sorted(words & view.jobs.keys())
        assert not unmarked, f"{reason!r} mentions {', '.join(unmarked)}; use said(..., Job(id), ...)"


def check_serialisable(plan: Plan) -> None:
    """Memory is made of JSON values and comes back from a store as it was."""
    stored = through_json(plan.memory)
    assert through_json(stored) == stored


def check_same(before: tuple[Plan, Lowered], after: tuple[Plan, Lowered], why: str) -> None:
    """Two decisions come to the same."""
    for part in ("grants", "waiting"):
        old, new = getattr(before[1], part), getattr(after[1], part)
        assert old == new, f"{why}: {part} differ: {difference(old, new)}"
    assert through_json(before[0].memory) == through_json(after[0].memory), f"{why}: memory differs"
    assert before[0].wake_s == after[0].wake_s, f"{why}: wake_s differs"
    assert before[0].admissions == after[0].admissions, f"{why}: admissions differ"


def difference(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    """Keys whose values differ, with the old and the new value (None where there is none)."""
    return {key: (old.get(key), new.get(key)) for key in sorted({*old, *new}) if old.get(key) != new.get(key)}


def check_settled(policy: Policy, view: View, patience: int = 1) -> None:
    """Applying the plan and asking again at the same instant changes nothing, at the latest after ``patience`` times.

    That is X-4; it catches jobs that are moved to and fro.
    """
    changed: dict[str, tuple[object, object]] = {}
    plan, lowered = decide(policy, view)
    for _ in range(patience):
        view = applied(view, lowered.grants, through_json(plan.memory))
        before = lowered.grants
        plan, lowered = decide(policy, view)
        changed = difference(before, lowered.grants)
        if not changed:
            return
    raise AssertionError(f"the same instant, the plan applied, and jobs move again: {changed}")
