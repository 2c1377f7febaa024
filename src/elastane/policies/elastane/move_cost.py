"""Prices the restart that a move costs, and finds jobs that are too recently changed to be moved.

A move has to pay within the remaining time of the job, or within a horizon: with k GPUs and a speed-up of s(k), work
that takes L seconds on one takes L ÷ s(k), and a restart before it.  How long a job will stay where it is put is
unknown; it is expected to stay as long as it has stayed where it is.  A larger batch costs nothing, so it is tried
first: a job whose model wants a batch much larger than any it was seen with is not moved until it has been seen with
that, since its speed model rests on the small one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from elastane.models.goodput import GoodputModel
from elastane.models.speed import FloatArray
from elastane.policies.allocation.problem import Problem
from elastane.policies.view import JobView

_TINY = 1e-12
ANOTHER_BATCH = 1.3
"""Ratio of samples per GPU from which two batches count as different."""
_LOOK_S = 120.0
"""Seconds after a change (and its restart) for which a job is left alone to measure itself."""
_STEPS_S = 10.0
"""Seconds of training after which a job has measured something."""
_LONGEST_S = 2000.0
"""Seconds that a job is expected to stay in its place at most, however long it has stayed."""


def unsure(job: JobView, now_s: float) -> bool:
    """Tells whether a young job's speed model rests on a batch much smaller than the one it is about to use."""
    speed, ledger = job.speed, job.ledger
    if not isinstance(speed, GoodputModel) or not speed.widest:
        return False
    if ledger.held_at(now_s) > (ledger.restarts + 1) * job.restart_s + _LOOK_S:
        return False
    return _wants_more(speed, 1, max(job.workers, 1))


def untried(job: JobView, now_s: float) -> bool:
    """Tells whether a job may soon become much faster where it is, with a larger batch it has not tried yet."""
    speed, since_s = job.speed, job.ledger.last_change_s
    if not isinstance(speed, GoodputModel) or not speed.widest or job.grant is None or since_s is None:
        return False
    if now_s > since_s + job.restart_s + _LOOK_S:
        return False
    return _wants_more(speed, min(len(job.grant.slices), 2), job.workers)


def _wants_more(speed: GoodputModel, nodes: int, workers: int) -> bool:
    best = speed.best_batch(nodes, workers)
    return best is not None and best.per_gpu > ANOTHER_BATCH * speed.widest


def next_look_s(jobs: Iterable[JobView], now_s: float) -> float:
    """Returns the time of the next measurement among these jobs, which hold GPUs or are about to; infinite: none."""
    soonest = np.inf
    for job in jobs:
        if job.grant is not None and job.speed is not None and not untried(job, now_s):
            continue
        began_s = job.ledger.last_change_s if job.grant is not None else now_s
        ready_s = (now_s if began_s is None else began_s) + job.restart_s
        if now_s < ready_s + _LOOK_S:
            soonest = min(soonest, max(ready_s, now_s) + _STEPS_S)
    return soonest


def horizons_s(jobs: Sequence[JobView], least_s: float, now_s: float) -> FloatArray:
    """Returns the seconds each job is expected to stay where a move would put it, ``least_s`` at least.

    A job of unknown remaining work loses value the longer it goes on, so it gets ``least_s``.
    """
    changed_s = (job.ledger.last_change_s if job.remaining is not None else None for job in jobs)
    stayed_s = np.array([0.0 if since_s is None else now_s - since_s for since_s in changed_s])
    out: FloatArray = np.clip(stayed_s, least_s, max(least_s, _LONGEST_S))
    return out


def what_a_move_leaves(plain: Problem, sizes_s: FloatArray, horizon_s: FloatArray, now_s: float) -> FloatArray:
    """Returns the part of its speed that a running job keeps if it is moved to each size: (job, size).

    Args:
        plain: Speeds before weighting, and what jobs hold.
        sizes_s: Seconds left on one GPU.
        horizon_s: No move may take longer to pay, per job.
        now_s: The present moment.
    """
    restart_s = np.array([job.restart_s for job in plain.jobs])[:, None]
    speedups = plain.packed() / np.maximum(plain.one_gpu, _TINY)[:, None]
    takes_s = restart_s + sizes_s[:, None] / np.maximum(speedups, _TINY)
    kept = 1.0 - restart_s / np.maximum(np.minimum(takes_s, horizon_s[:, None]), _TINY)
    kept[[untried(job, now_s) for job in plain.jobs]] = 0.0
    out: FloatArray = np.where(plain.running[:, None], np.clip(kept, 0.0, 1.0), 1.0)
    return out
