"""Decides which configurations one job may have in this round: as its kind allows, and at most double what it has."""

from __future__ import annotations

from elastane.policies.allocation.eviction import Configuration
from elastane.policies.sia.configurations import Machines, configurations_of
from elastane.policies.sia.goodputs import Row
from elastane.policies.view import Ability, JobView, View, has


def row_of(job: JobView, view: View, machines: Machines) -> Row | None:
    """Returns the job with its choices; None if it must keep a grant on nodes that take no new work."""
    present = present_configuration(job, view)
    if view.must_keep(job):
        return Row(job, (present,), 0, True) if present else None
    if present is None:
        return Row(job, tuple(configurations_of(job, machines, limit(job, None))))
    if not has(job.abilities, Ability.MIGRATE) or is_restarting(job, view.now_s):
        return Row(job, (present,), 0, is_restarting(job, view.now_s))
    choices = configurations_of(job, machines, limit(job, present))
    same = [each for each in choices if (each.gpu_type, each.gpus) == (present.gpu_type, present.gpus)]
    choices = choices if same else [*choices, present]
    return Row(job, tuple(choices), choices.index(same[0] if same else present))


def present_configuration(job: JobView, view: View) -> Configuration | None:
    """Returns what the job holds; None if it holds nothing, or a node of it is gone or about to go."""
    if job.grant is None or any(node not in view.usable for node in job.grant.nodes):
        return None
    kind = view.usable[job.grant.nodes[0]].gpu_type
    return Configuration(kind, job.grant.workers, len(job.grant.slices))


def is_restarting(job: JobView, now_s: float) -> bool:
    """Tells whether the job was changed so recently that it is still coming up: such a job is left alone."""
    changed_s = job.ledger.last_change_s
    return changed_s is not None and now_s <= changed_s + job.restart_s


def limit(job: JobView, present: Configuration | None) -> int:
    """Returns the most GPUs it may have: its least at first, at most double from round to round.

    One that was stopped may go back to what it was already seen with.
    """
    least = max(job.request.min_workers, 1)
    if present is not None:
        most = max(2 * present.gpus, least)
    elif job.ledger.first_start_s is not None and job.speed is not None:
        most = max(job.speed.max_profiled, least)
    else:
        most = least
    if job.speed is not None:
        most = min(most, max(job.speed.max_useful, least))
    return min(most, max(job.request.max_workers, least))
