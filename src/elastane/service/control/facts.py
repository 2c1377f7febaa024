"""The control plane states facts of its jobs to the scheduling kernel, after quotas and owners have changed them.

Everything is an adjustment of facts, made before the kernel makes a view of them: who is on hold or waits for another
try is not stated at all; who was put somewhere is stated to stand there; quotas lower what a job may have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from elastane.cluster import Grant, Node
from elastane.kit.durations import duration
from elastane.policies.contract import Policy
from elastane.policies.view import Info, Tenant, View, has
from elastane.scheduling.facts import JobFacts, Situation
from elastane.scheduling.views import view_of
from elastane.service.control.active_job import LiveJob
from elastane.service.control.job_measurements import fit_together
from elastane.service.control.near_end import left_alone
from elastane.service.control.quotas import Allowance, allowances
from elastane.service.control.requested_places import as_it_is, place_is_taken, place_of, words
from elastane.service.control.type_sizes import slots_by_type
from elastane.service.messages import QuotaInfo

Facts = dict[str, JobFacts]


@dataclass(frozen=True, slots=True)
class AdjustedView:
    """A view, and why some jobs are not in it."""

    view: View
    withheld: Mapping[str, str]
    over_quota: frozenset[str] = frozenset()
    """Those of them for which their tenant's quota has no room."""


def build_view(
    situation: Situation,
    quotas: Mapping[str, QuotaInfo],
    jobs: Iterable[LiveJob],
    policy: Policy,
    patient: frozenset[str] = frozenset(),
    leaving: Mapping[str, float] = MappingProxyType({}),
    silent: frozenset[str] = frozenset(),
) -> AdjustedView:
    """What this policy may see now; ``patient`` jobs go on as they are, whatever their owners have asked for.

    ``leaving`` says when nodes are taken away: what stands there may be moved, whoever put it there.  Who has
    workers on ``silent`` nodes stays as it is until they are heard of, or lost.
    """
    there = sorted(jobs, key=_precedence)
    info = policy.needs.info
    if has(info, Info.SPEED):
        fit_together(job.learned for job in there)
    withheld: dict[str, str] = {}
    facts = _stated(there, situation, withheld, patient, leaving, silent)
    _put_where_owners_want(there, facts, withheld, situation.nodes, patient, leaving)
    limits = allowances(quotas.values(), facts, _slots(situation.nodes))
    withheld_before = withheld.keys() | set()
    for allowance, borrowed in limits.values():
        _keep_within(allowance, borrowed, facts, withheld)
    over_quota = frozenset(withheld.keys() - withheld_before)
    tenants = {
        name: Tenant(quota.weight, quota.slots + limits[name][1] if quota.slots is not None else None)
        for name, quota in quotas.items()
    }
    views = {job.id: job.view(_within_bounds(facts[job.id]), info) for job in there if job.id in facts}
    return AdjustedView(view_of(replace(situation, tenants=tenants), views, info), withheld, over_quota)


def _slots(nodes: Mapping[str, Node]) -> int:
    return sum(node.gpus for node in nodes.values())


def _precedence(job: LiveJob) -> tuple[bool, int, float, int]:
    """Who comes first within a quota: who holds something, then by priority and age."""
    return (not job.holding, -job.spec.priority, job.row.submitted_s, job.row.number)


def _stated(
    jobs: Sequence[LiveJob],
    situation: Situation,
    withheld: dict[str, str],
    patient: frozenset[str],
    leaving: Mapping[str, float],
    silent: frozenset[str],
) -> Facts:
    """Facts of all jobs that compete; why each of the others does not goes into ``withheld``."""
    slots, now_s = slots_by_type(situation.nodes.values()), situation.now_s
    accelerators = tuple(slots) or ("cpu",)
    found: Facts = {}
    for job in jobs:
        if job.row.held and not job.holding:
            withheld[job.id] = "its owner put it on hold; 'elastane resume' lets it go on"
        elif job.retry_s > now_s:
            withheld[job.id] = f"it failed and is tried again in {duration(job.retry_s - now_s)}"
        else:
            most = job.most(slots)
            until_s = _until_s(job, leaving)
            facts = left_alone(job, _freed(job.facts(most, accelerators), until_s), now_s, until_s)
            if facts.settled and not job.leaving and job.row.pinned_node in leaving:
                facts = replace(facts, settled=False)
            facts = as_it_is(job, facts) if job.id in patient else facts
            if silent and facts.grant is not None and not silent.isdisjoint(facts.grant.nodes):
                facts = replace(facts, settled=True)
            found[job.id] = facts
    return found


def _freed(facts: JobFacts, until_s: float) -> JobFacts:
    """State a job whose node is taken away as preemptible: if it stays it dies there, for nobody's sake."""
    if until_s == math.inf or facts.request.preemptible:
        return facts
    return replace(facts, request=replace(facts.request, preemptible=True))


def _until_s(job: LiveJob, leaving: Mapping[str, float]) -> float:
    """When the first of its nodes is taken away; infinite if none is."""
    places = job.places.keys() & leaving.keys() if leaving else ()
    return min((leaving[node] for node in places), default=math.inf)


def _put_where_owners_want(
    jobs: Sequence[LiveJob],
    facts: Facts,
    withheld: dict[str, str],
    nodes: Mapping[str, Node],
    patient: frozenset[str],
    leaving: Mapping[str, float],
) -> None:
    """State that jobs stand where their owners put them, as far as those places can be had."""
    for job in jobs:
        if job.row.pinned_node is None or job.row.pinned_node in leaving or job.id not in facts:
            continue
        if job.id in patient or job.leaving:
            continue
        stated = facts[job.id]
        place = place_of(job, stated)
        if not place_is_taken(place, stated, facts.values(), nodes):
            facts[job.id] = replace(stated, grant=place)
        elif job.row.grant is not None:
            facts[job.id] = as_it_is(job, stated)
        else:
            withheld[job.id] = words(job, jobs, nodes)
            del facts[job.id]


def _within_bounds(facts: JobFacts) -> JobFacts:
    """Clamp a job's grant to its allowed range: above the maximum it is cut, below the minimum it is dropped.

    A policy never sees a grant out of range, so leaving it as it is is no choice for a policy.
    """
    grant, most = facts.grant, max(facts.request.max_workers, facts.request.workers)
    if grant is None or not facts.returns or facts.request.min_workers <= grant.workers <= most:
        return facts
    if grant.workers < facts.request.min_workers:
        return replace(facts, grant=None)
    counts, left = [], most
    for part in sorted(grant.slices, key=lambda part: -part.workers):
        counts.append((part.node, min(part.workers, left)))
        left -= counts[-1][1]
    return replace(facts, grant=Grant.of(counts))


def _keep_within(allowance: Allowance, borrowed: int, facts: Facts, withheld: dict[str, str]) -> None:
    """Leave out whom there is no room for; what the others may have beyond their least is shared evenly."""
    growing = dict[str, int]()
    for job in [job for job in facts.values() if job.tenant == allowance.quota.tenant]:
        fixed = job.grant is not None and job.ledger.gpus > 0 and not job.returns
        workers = job.grant.workers if fixed and job.grant is not None else job.request.min_workers
        need = job.request.gpus_of(workers)
        if not fixed and not allowance.admits(need, job):
            withheld[job.id] = allowance.refusal(borrowed, job)
            del facts[job.id]
            continue
        allowance.take(need, job)
        if not fixed:
            growing[job.id] = job.request.min_workers
    for name, most in _shared(allowance.left, growing, facts).items():
        job = facts[name]
        if most < job.request.max_workers:
            facts[name] = replace(job, request=replace(job.request, max_workers=most))


def _shared(left: int, least: Mapping[str, int], facts: Facts) -> dict[str, int]:
    """The most workers each may have, so that all together take no more than is left."""
    most, open_ = dict(least), list(least)
    while open_:
        for job in list(open_):
            request = facts[job].request
            each = max(1, request.gpus_of(1))
            if most[job] >= request.max_workers or each > left:
                open_.remove(job)
                continue
            most[job] += 1
            left -= each
    return most
