"""Finds workers that do not come, do not answer, hang, or have gone too early.  Pure: told the time, it names them."""

from __future__ import annotations

from collections.abc import Iterable

from elastane.train.coordinator.hang_detection import HangLimits, hung
from elastane.train.coordinator.membership_plan import Plan
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase, Worker

_EARLIER = "call it earlier, or allow more time (--hello, ELASTANE_HELLO_S)"


def silence(worker: Worker, settings: Settings, now_s: float) -> str | None:
    """Why a worker that has spoken counts as lost, if its lease has passed since."""
    lease_s = settings.warm_lease_s if worker.phase is Phase.WARMING else settings.lease_s
    silent = bool(worker.seen_s) and now_s - worker.seen_s > lease_s
    return f"no sign of life for {lease_s:g} s" if silent else None


def unheard(worker: Worker, settings: Settings, now_s: float) -> str | None:
    """Why a worker that has never spoken counts as lost, if its process has run too long for that."""
    limit_s = settings.hello_s
    if worker.seen_s or worker.started_s is None or now_s - worker.started_s <= limit_s:
        return None
    return f"its process runs, but did not come to et.init() within {limit_s:g} s; {_EARLIER}"


def hanging(
    workers: Iterable[Worker], settings: Settings, step_s: float, now_s: float
) -> tuple[Worker, str] | None:
    """A member that computes and computes while others have long been waiting for it, and why it is given up."""
    usual_s = max(settings.hang_floor_s, settings.hang_factor * step_s)
    limits = HangLimits(usual_s, settings.first_step_s, settings.compile_s)
    stuck = hung(workers, limits, now_s)
    if stuck is None:
        return None
    limit_s = now_s - stuck.beat.since_s
    return stuck, f"no progress for {limit_s:.1f} s at step {stuck.beat.step} while others wait"


def desertion(workers: Iterable[Worker], settings: Settings, now_s: float) -> str | None:
    """Why the job has failed, if somebody has ended training while others wait for him in the next step."""
    members = [w for w in workers if w.phase is Phase.MEMBER]
    gone = [w for w in members if w.done]
    waiting = [w for w in members if w.beat.doing is Activity.WAITING and not w.done]
    if gone and any(alone_s(w, gone, now_s) > settings.hang_floor_s for w in waiting):
        return left_early(gone[0].name, gone[0].beat.step, len(waiting))
    return None


def alone_s(waiting: Worker, done: Iterable[Worker], now_s: float) -> float:
    """For how many seconds a member has waited for others that had ended training; its last beat may be older."""
    return now_s - max(waiting.beat.since_s, min(w.beat.since_s for w in done))


def late(workers: Iterable[Worker], plan: Plan) -> list[Worker]:
    """Members of a plan that should have entered it and have no excuse."""
    return [
        worker
        for worker in workers
        if worker.alive
        and worker.entered < plan.generation
        and worker.beat.doing not in (Activity.EVALUATING, Activity.OUTSIDE)
        and not (worker.beat.doing is Activity.COMPUTING and worker.effort.early(worker.beat.step))
    ]


def left_early(name: str, step: int, others: int) -> str:
    """What is said of a worker that ended before the training did."""
    rest = f" while {others} others were still training" if others else ""
    return f"worker {name} left the training loop early, at step {step}{rest}"
