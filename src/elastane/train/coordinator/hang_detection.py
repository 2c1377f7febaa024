"""Hang detection names the member that computes and computes while others have long been waiting for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase, Worker


@dataclass(frozen=True, slots=True)
class HangLimits:
    """How long a step may take, in seconds."""

    usual_s: float
    early_idle_s: float
    """In a worker's first steps, without being seen at work ..."""
    early_s: float
    """... and at work: it may be compiling."""


def hung(workers: Iterable[Worker], limits: HangLimits, now_s: float) -> Worker | None:
    """The member that others wait for in vain."""
    members = [w for w in workers if w.phase is Phase.MEMBER and not w.done]
    waits = [now_s - w.beat.since_s for w in members if w.beat.doing is Activity.WAITING]
    busy = [w for w in members if w.beat.doing is Activity.COMPUTING]
    if not waits or not busy:
        return None
    waited_s = median(waits)
    return next((w for w in busy if _stuck(w, limits, now_s, waited_s)), None)


def _stuck(worker: Worker, limits: HangLimits, now_s: float, waited_s: float) -> bool:
    busy_s = now_s - worker.beat.since_s
    if not worker.effort.early(worker.beat.step):
        return busy_s > limits.usual_s and waited_s > limits.usual_s / 2
    idle_s = now_s - max(worker.beat.since_s, worker.effort.worked_s)
    idle_limit_s = max(limits.early_idle_s, limits.usual_s)
    return (idle_s > idle_limit_s and waited_s > idle_limit_s / 2) or busy_s > max(
        limits.early_s, limits.usual_s
    )


def first_steps(workers: Iterable[Worker], now_s: float) -> tuple[str, float] | None:
    """Who has been longest in one of its first steps, and for how many seconds."""
    early = [
        w
        for w in workers
        if w.phase is Phase.MEMBER and w.beat.doing is Activity.COMPUTING and w.effort.early(w.beat.step)
    ]
    if not early:
        return None
    longest = min(early, key=lambda w: w.beat.since_s)
    return longest.name, now_s - longest.beat.since_s
