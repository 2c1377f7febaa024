"""A running job trains on until the size or the place that its owner asked for can be had.

A pinned size is one demand for a policy: all of it, or nothing.  Where the answer is nothing, the policy is asked
again with the job as it is.  A place that somebody holds who cannot be made to leave is not asked for at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from elastane.cluster import Grant, Node
from elastane.engines.contract import places_of
from elastane.policies.view import Ability
from elastane.scheduling.facts import JobFacts
from elastane.service.control.active_job import LiveJob
from elastane.service.wording import counted, named_to


def waits(job: LiveJob) -> bool:
    """Whether it runs otherwise than its owner wants it to, and has to wait for that."""
    row = job.row
    if row.grant is None or job.leaving:
        return False
    if row.pinned_node is not None and set(places_of(row.grant)) != {row.pinned_node}:
        return True
    return row.pinned_workers is not None and row.grant.workers < row.pinned_workers


def unmet(jobs: Iterable[LiveJob], grants: Mapping[str, Grant], nodes: Mapping[str, Node]) -> frozenset[str]:
    """Jobs that would lose all they have because they cannot have what their owner wants."""
    without = [job for job in jobs if job.id not in grants and waits(job)]
    return frozenset(job.id for job in without if job.places.keys() <= nodes.keys())


def as_it_is(job: LiveJob, facts: JobFacts) -> JobFacts:
    """State that a policy may leave the job as it is, or take all from it, but not make it smaller."""
    assert job.row.grant is not None
    held = job.row.grant.workers
    request = replace(facts.request, workers=held, min_workers=held, max_workers=held)
    return replace(facts, request=request, grant=job.row.grant, settled=False)


def place_of(job: LiveJob, facts: JobFacts) -> Grant:
    """The grant that its owner asked for: all its workers on the node of their choice."""
    assert job.row.pinned_node is not None
    return Grant.of([(job.row.pinned_node, facts.request.workers)])


def place_is_taken(
    place: Grant, facts: JobFacts, others: Iterable[JobFacts], nodes: Mapping[str, Node]
) -> bool:
    """Whether those who cannot be made to leave hold too much of it."""
    [part] = place.slices
    if part.node not in nodes:
        return False  # that it is not there is another matter
    kept = [
        (other.request, theirs.workers)
        for other in others
        if other.id != facts.id and not other.returns and other.ledger.gpus and other.grant
        for theirs in other.grant.slices
        if theirs.node == part.node
    ]
    all_of_it = [*kept, (facts.request, part.workers)]
    slots = sum(request.gpus_of(workers) for request, workers in all_of_it)
    cores = sum(request.worker.cpus * workers for request, workers in all_of_it)
    return slots > nodes[part.node].gpus or cores > nodes[part.node].cpus + 1e-9


def room_now(job: LiveJob, jobs: Iterable[LiveJob], nodes: Mapping[str, Node]) -> bool:
    """Whether there is room for what its owner wants without anybody having to leave."""
    row, wanted = job.row, job.row.pinned_workers
    if wanted is None or (row.grant is not None and not waits(job)):
        return True
    free = {name: node.gpus for name, node in nodes.items() if row.pinned_node in (None, name)}
    cores = {name: nodes[name].cpus for name in free}
    for other in jobs:
        for node, count in other.places.items() if other.id != job.id else ():
            if node in free:
                free[node] -= other.slots(count)
                cores[node] -= other.worker.cpus * count
    each = max(job.worker.gpus, 1e-9)
    room: dict[str, int] = {}  # by accelerator type: a job never gets two of them
    for name, left in free.items():
        if not job.spec.accelerators or nodes[name].gpu_type in job.spec.accelerators:
            kind = nodes[name].gpu_type
            workers = max(0, left) / each
            if job.worker.cpus:
                workers = min(workers, max(0.0, cores[name]) / job.worker.cpus)
            room[kind] = room.get(kind, 0) + int(workers + 1e-9)
    return max(room.values(), default=0) >= wanted


def holders(job: LiveJob, jobs: Iterable[LiveJob]) -> list[LiveJob]:
    """Who has what it waits for: on its place, or anywhere; those who cannot be made to leave come first."""
    node = job.row.pinned_node
    there = [j for j in jobs if j.id != job.id and (j.places if node is None else node in j.places)]
    return sorted(there, key=lambda j: (not _stays(j), j.row.number))


def named_for(job: LiveJob, others: Iterable[LiveJob]) -> str:
    """Others in a sentence about a job: whoever sees that one need not know those of other tenants."""
    return named_to(job.row.tenant, ((other.id, other.row.tenant) for other in others))


def words(job: LiveJob, jobs: Sequence[LiveJob], nodes: Mapping[str, Node]) -> str:
    """What becomes of a job meanwhile, and for whom it waits."""
    grant, node, wanted = job.row.grant, job.row.pinned_node, job.row.pinned_workers or job.spec.workers.min
    fit = f"{counted(wanted, 'worker')} fit{'s' if wanted == 1 else ''}"
    if grant is None:
        now = f"it waits until {fit}"
    elif node is None:
        now = f"it goes on with {counted(grant.workers, 'worker')} until {wanted} fit"
    else:
        now = f"it goes on where it is until {fit}"
    where = f" on {node}" if node is not None else ""
    return f"{now}{where}: {_taken(job, jobs, nodes, [node] if node is not None else list(nodes))}"


def _taken(job: LiveJob, jobs: Sequence[LiveJob], nodes: Mapping[str, Node], among: Sequence[str]) -> str:
    """How much of some nodes is free, and who has the rest of it."""
    others = holders(job, jobs)
    total = sum(nodes[node].gpus for node in among if node in nodes)
    held = sum(other.slots(other.places.get(node, 0)) for other in others for node in among)
    own = sum(job.slots(job.places.get(node, 0)) for node in among)
    free = max(0, total - held - own)
    verb, have = "are" if free > 1 else "is", "has" if len(others) == 1 else "have"
    who = f", {named_for(job, others)} {have} {held}" if others else ""
    return f"{free or 'none'} of {counted(total, 'slot')} {verb} free{who}{_who_goes(job, others, free + own, among)}"


def _who_goes(job: LiveJob, others: Sequence[LiveJob], there: int, among: Sequence[str]) -> str:
    """Whether others can make room, or who cannot be made to."""
    goes = [other for other in others if not _stays(other)]
    given = sum(other.slots(other.places.get(node, 0)) for other in goes for node in among)
    enough = job.slots(job.row.pinned_workers or 1) <= there + given
    meant = goes if enough else [other for other in others if _stays(other)]
    if not meant:
        return ""
    who = " and" if len(meant) == len(others) else f"; {named_for(job, meant)}"
    return f"{who} may have to make room" if enough else f"{who} cannot be made to leave"


def _stays(job: LiveJob) -> bool:
    fixed = job.abilities is Ability.NONE or job.row.pinned_node is not None
    return not job.leaving and (fixed or not job.spec.preemptible)
