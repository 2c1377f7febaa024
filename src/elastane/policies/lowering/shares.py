"""Realises shares of time: selects this round's jobs so that received time approaches each share (Gavel, §5)."""

from __future__ import annotations

from elastane.policies.lowering.rounds import free_by_type, realise_round
from elastane.policies.plan import Shares, Want, Wants
from elastane.policies.view import JobView, View


def realise(shares: Shares, view: View, waiting: dict[str, str]) -> Wants:
    """Selects this round's jobs: largest share over time received so far first, each on the type it lags on most.

    Jobs that have a share but not this round are put into ``waiting`` with the reason.
    """
    if shares.received is not None:
        return realise_round(shares, shares.received, view, waiting)
    free = free_by_type(view)
    want: dict[str, Want] = {}
    for _, job_id, kind in sorted(_lags(shares, view), key=lambda item: (-item[0], item[1], item[2])):
        request = view.jobs[job_id].request
        need = request.gpus_of(request.workers)
        if job_id not in want and need <= free.get(kind, 0):
            free[kind] -= need
            want[job_id] = Want(request.workers, gpu_type=kind)
    for job_id, fractions in shares.fraction.items():
        if job_id in view.jobs and job_id not in want:
            share = sum(fractions.values())
            waiting[job_id] = (
                f"its share is {share:.0%} of the time; others are further behind theirs this round"
            )
    return Wants(want)


def _lags(shares: Shares, view: View) -> list[tuple[float, str, str]]:
    """Returns (share over time received, job, type) for every type that a job may use."""
    lags: list[tuple[float, str, str]] = []
    for job_id, fractions in shares.fraction.items():
        job = view.jobs.get(job_id)
        if job is None or view.must_keep(job):
            continue
        received = _received(job, view.now_s)
        types = job.request.types
        for kind, share in fractions.items():
            if share > 0 and (not types or kind in types):
                lags.append((share / (received + 1e-3), job_id, kind))
    return lags


def _received(job: JobView, now_s: float) -> float:
    """Returns the fraction of its life in which the job held GPUs."""
    return job.ledger.held_at(now_s) / max(now_s - job.submit_s, 1.0)
