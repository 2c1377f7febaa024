"""Places configurations that were chosen: who need not move stays, and the fewest GPUs are evicted for the rest.

Jobs on several nodes take whole ones, jobs on one node are never split, as far as the nodes allow; the largest are
placed first.  Where an unchanged job stands in the way it is evicted, keeps its configuration, and finds another place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from elastane.cluster import Grant
from elastane.policies.lowering.wants import place_wants
from elastane.policies.plan import Spread, Want
from elastane.policies.view import Ability, JobView, View, has


@dataclass(frozen=True, slots=True)
class Configuration:
    """GPUs of one type on so many nodes; ``nodes`` is the fewest that hold them."""

    gpu_type: str
    gpus: int
    nodes: int = 1


def place(
    view: View, chosen: Mapping[str, Configuration], fixed: Collection[str], reasons: dict[str, str]
) -> dict[str, Grant]:
    """Returns grants for these configurations; ``fixed`` jobs are not evicted, ``reasons`` gets who found no place."""
    wants = {
        job: Want(each.gpus, gpu_type=each.gpu_type, spread=Spread.BEST_FIT, max_nodes=each.nodes)
        for job, each in sorted(chosen.items(), key=lambda item: (-item[1].gpus, item[0]))
    }
    held = {job.id: job.grant for job in view.jobs.values() if job.grant}
    best: dict[str, Grant] = {}
    unplaced: dict[str, str] = {}
    for _ in range(len(chosen) + 1):
        missing: dict[str, str] = {}
        grants = place_wants(wants, view, missing, held)
        if len(grants) > len(best) or not best:
            best, unplaced = grants, missing
        stuck = next((job for job in wants if job not in grants), None)
        victims = _victims(view, chosen[stuck], held, chosen, fixed) if stuck is not None else ()
        if not victims:
            break
        held = {job: grant for job, grant in held.items() if job not in victims}
    reasons.update(unplaced)
    return best


def _victims(
    view: View,
    wanted: Configuration,
    held: Mapping[str, Grant],
    chosen: Mapping[str, Configuration],
    fixed: Collection[str],
) -> set[str]:
    """Returns unchanged jobs whose eviction makes room for one more, with the fewest GPUs between them."""
    nodes = [node for node in view.usable.values() if node.gpu_type == wanted.gpu_type]
    free = {node.id: node.gpus for node in nodes}
    movable: dict[str, list[str]] = {node.id: [] for node in nodes}
    for job_id, grant in sorted(held.items(), key=lambda item: (item[1].workers, item[0])):
        job = view.jobs[job_id]
        unchanged = job_id in chosen and _has(job, chosen[job_id], view)
        if not (unchanged or view.must_keep(job)):
            continue
        for part in grant.slices:
            if part.node in free:
                free[part.node] -= job.request.gpus_of(part.workers)
                if job_id not in fixed and _may_move(job, view):
                    movable[part.node].append(job_id)
    each = -(-wanted.gpus // wanted.nodes)
    ways = [way for node in free if (way := _on_node(node, each, free, movable, held)) is not None]
    cheapest = sorted(ways, key=lambda way: (sum(held[job].workers for job in way), sorted(way)))
    if len(cheapest) < wanted.nodes:
        return set()
    return set().union(*cheapest[: wanted.nodes])


def _on_node(
    node: str,
    gpus: int,
    free: Mapping[str, int],
    movable: Mapping[str, list[str]],
    held: Mapping[str, Grant],
) -> set[str] | None:
    """Returns the jobs, the smallest first, that must leave a node for so many GPUs; None if that is not enough."""
    gained, leaving = free[node], set()
    for job in movable[node]:
        if gained >= gpus:
            break
        leaving.add(job)
        gained += sum(part.workers for part in held[job].slices if part.node == node)
    return leaving if gained >= gpus else None


def _has(job: JobView, wanted: Configuration, view: View) -> bool:
    """Tells whether a job holds this configuration, on nodes that can still be used."""
    if job.grant is None or job.grant.workers != wanted.gpus:
        return False
    nodes = [view.usable.get(node) for node in job.grant.nodes]
    return all(node is not None and node.gpu_type == wanted.gpu_type for node in nodes)


def _may_move(job: JobView, view: View) -> bool:
    return not view.must_keep(job) and has(job.abilities, Ability.MIGRATE)
