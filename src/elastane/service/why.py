"""Why a job waits: one binding reason, the numbers behind it, who is ahead, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from elastane.cluster import Node
from elastane.engines.contract import Engine
from elastane.jobs.kinds import ONE_SIZE, Kind
from elastane.jobs.states import State
from elastane.policies.view import View
from elastane.scheduling.decide import decide
from elastane.service.control.active_job import LiveJob, slots_of
from elastane.service.control.ledger import Clock, Ledger
from elastane.service.control.policy_runner import crash_of
from elastane.service.control.requested_places import holders, waits
from elastane.service.control.round import DecisionRound
from elastane.service.control.type_sizes import slots_by_type
from elastane.service.eta import end_of
from elastane.service.messages import Ahead, Instead, Why
from elastane.service.run_kinds import kind_of
from elastane.service.wording import counted

_MOST_AHEAD = 10


@dataclass(frozen=True, slots=True)
class Known:
    """What a reason is found in: the jobs, what nodes there are, and how the policy decides."""

    ledger: Ledger
    engine: Engine
    decisions: DecisionRound
    clock: Clock


def explain(known: Known, job: LiveJob, *, instead: bool) -> Why:
    """Explains a job from the last decision; ``instead`` asks the policy again, with other wishes."""
    row = job.row
    nodes = _that_fit(known, job)
    slots = slots_by_type(nodes.values())
    total, held = sum(slots.values()), _held(known.ledger.live.values(), nodes)
    request = job.request(job.most(slots))
    numbers = {
        "slots": float(total),
        "slots_free": float(total - held),
        "workers": float(row.grant.workers if row.grant else 0),
        "workers_least": float(request.min_workers),
        "workers_most": float(request.max_workers),
    }
    if row.grant is not None:
        reason, ahead = _why_running(job), waits_for(known, job)
        return Why(id=row.id, state=row.state.value, reason=reason, numbers=numbers, ahead=ahead)
    reason = job.waiting or "it has just arrived and the next decision will look at it"
    ahead = [_ahead(known, j) for j in known.ledger.live.values() if j.row.grant is not None]
    return Why(
        id=row.id,
        state=row.state.value,
        reason=reason,
        numbers=numbers,
        ahead=ahead[:_MOST_AHEAD],
        advice=_advice(job, _free(known, nodes), instead=instead),
        instead=_alternatives(known, job) if instead else [],
    )


def _that_fit(known: Known, job: LiveJob) -> Mapping[str, Node]:
    """Nodes that are there and have accelerators that the job takes."""
    wanted = job.spec.accelerators
    return {name: node for name, node in known.engine.nodes().items() if not wanted or node.gpu_type in wanted}


def _held(jobs: Iterable[LiveJob], nodes: Mapping[str, Node]) -> int:
    """Slots on these nodes that jobs hold."""
    return sum(
        slots_of(j.spec, part.workers)
        for j in jobs
        if j.row.grant
        for part in j.row.grant.slices
        if part.node in nodes
    )


def _free(known: Known, nodes: Mapping[str, Node]) -> int:
    """The most free slots of one accelerator type among these nodes: a job never gets two."""
    free = []
    for kind in slots_by_type(nodes.values()):
        alike = {name: node for name, node in nodes.items() if node.gpu_type == kind}
        free.append(sum(node.gpus for node in alike.values()) - _held(known.ledger.live.values(), alike))
    return max(free, default=0)


def waits_for(known: Known, job: LiveJob) -> list[Ahead]:
    """The jobs that hold what a job that was scaled or moved needs."""
    asked = job.row.pinned_workers is not None and (waits(job) or job.row.grant is None)
    if not asked or job.row.held or not job.waiting:
        return []
    return [_ahead(known, other) for other in holders(job, known.ledger.live.values())[:_MOST_AHEAD]]


def _ahead(known: Known, job: LiveJob) -> Ahead:
    row = job.row
    return Ahead(
        id=row.id,
        name=row.name,
        owner=row.owner,
        workers=row.grant.workers if row.grant else sum(job.places.values()),
        state=row.state.value,
        eta=end_of(job.learned, known.clock(), row.state in (State.RUNNING, State.RESIZING)),
    )


def _why_running(job: LiveJob) -> str:
    row = job.row
    assert row.grant is not None
    if row.state is State.SUSPENDING:
        return "it is saving its work before it gives up its place"
    if waits(job) and job.waiting:
        return job.waiting
    if row.pinned_node is not None:
        return f"it runs with {_workers(row.grant.workers)} on {row.pinned_node}, where its owner put it"
    if row.pinned_workers is not None:
        return f"it runs with {_workers(row.pinned_workers)}, the size its owner pinned"
    if (kind := kind_of(row)) in ONE_SIZE:
        what = "a command" if kind is Kind.COMMAND else "a rigid job"
        return f"it runs with {_workers(row.grant.workers)}; {what} has one size ({row.kind_reason})"
    return f"it runs with {_workers(row.grant.workers)}, which is where they do the most good now"


def _workers(count: int) -> str:
    return counted(count, "worker")


def _advice(job: LiveJob, free: int, *, instead: bool) -> list[str]:
    if job.row.held:
        return [f"elastane resume {job.id}"]
    least = job.request(1).min_workers
    fitting = int(free / max(job.spec.worker.gpus, 1e-9))
    if 0 < fitting < least and kind_of(job.row) not in ONE_SIZE:
        return [
            f"with {_workers(fitting)} at least instead of {least} it could start now (--workers {fitting}:…)"
        ]
    return [] if instead else [f"see 'elastane why {job.id} --instead'"]


def _alternatives(known: Known, job: LiveJob) -> list[Instead]:
    """Ask the policy again with this job's wishes changed one at a time."""
    seen = known.decisions.seen_by(known.decisions.policy, known.decisions.rounds.memory, "arrival")
    if job.id not in seen.view.jobs or known.decisions.rounds.problem:
        return []
    found = []
    least = seen.view.jobs[job.id].request.min_workers
    for workers in sorted({1, least // 2, least - 1} - {0, least}):
        found.append(
            _try(
                known,
                _with_least(seen.view, job.id, workers),
                job,
                f"{_workers(workers)} at least instead of {least}",
            )
        )
    if seen.view.jobs[job.id].request.types:
        found.append(_try(known, _any_type(seen.view, job.id), job, "any accelerator"))
    found.append(_try(known, _urgent(seen.view, job.id), job, "the highest priority"))
    return found


def _try(known: Known, view: View, job: LiveJob, change: str) -> Instead:
    try:
        grant = decide(known.decisions.policy, view).grants.get(job.id)
    except Exception as error:  # a policy may be anybody's code
        return Instead(change=change, starts=f"unknown: {crash_of(known.decisions.policy, error)}", helps=False)
    starts = f"it would start now, with {_workers(grant.workers)}" if grant else "it would still wait"
    return Instead(change=change, starts=starts, helps=grant is not None)


def _with_least(view: View, job: str, workers: int) -> View:
    seen = view.jobs[job]
    request = replace(seen.request, min_workers=workers, workers=workers)
    return replace(view, jobs={**view.jobs, job: replace(seen, request=request)})


def _any_type(view: View, job: str) -> View:
    seen = view.jobs[job]
    return replace(view, jobs={**view.jobs, job: replace(seen, request=replace(seen.request, types=()))})


def _urgent(view: View, job: str) -> View:
    seen = view.jobs[job]
    highest = max(j.priority for j in view.jobs.values()) + 1
    return replace(view, jobs={**view.jobs, job: replace(seen, priority=highest)})
