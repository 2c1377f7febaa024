"""Realising fractions of time: who runs this round so that received time approaches its share (Gavel, §5)."""

from __future__ import annotations

from elastane.policies.plan import Shares, Want, Wants
from elastane.policies.view import View


def realise(shares: Shares, view: View) -> Wants:
    """This round's jobs: largest share over time received so far first, each on the type it lags on most."""
    free = {kind: 0 for node in view.nodes.values() for kind in (node.gpu_type,)}
    for node in view.nodes.values():
        free[node.gpu_type] += 0 if node.draining else node.gpus
    lag: list[tuple[float, str, str]] = []
    for job_id, fractions in shares.fraction.items():
        job = view.jobs.get(job_id)
        if job is None:
            continue
        received = job.ledger.held_at(view.now_s) / max(view.now_s - job.submit_s, 1.0)
        lag.extend((share / (received + 1e-3), job_id, kind) for kind, share in fractions.items() if share > 0)
    want: dict[str, Want] = {}
    for _, job_id, kind in sorted(lag, key=lambda item: (-item[0], item[1], item[2])):
        need = view.jobs[job_id].request.workers
        if job_id not in want and need <= free.get(kind, 0):
            free[kind] -= need
            want[job_id] = Want(need, gpu_type=kind)
    return Wants(want)
