"""Finds members that wait for each other at different places of their script, in collectives that never meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elastane.train.coordinator.liveness import alone_s
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase, Worker

_LEAVE_BY = "leave loops over job.loader(...) by data.steps, not by a counter of the script's own"


@dataclass(frozen=True, slots=True)
class PlacesApart:
    """Members that will never meet."""

    strays: Sequence[Worker]
    """Newcomers that are elsewhere than those who have trained longest; empty if these are apart themselves."""
    why: str


def places_apart(
    workers: Iterable[Worker], settings: Settings, step_s: float, now_s: float
) -> PlacesApart | None:
    """Members that have long been in a step, and others that are behind the loop; None if there are no two such."""
    members = [w for w in workers if w.phase is Phase.MEMBER]
    in_step = [w for w in members if w.beat.doing is Activity.WAITING and not w.done]
    limit_s = max(settings.hang_floor_s, settings.hang_factor * step_s)
    done = [w for w in members if w.done]
    strays = _later(in_step, done)
    if any(alone_s(w, done, now_s) > settings.hang_floor_s for w in strays):
        return PlacesApart(strays, f"it was in a step while the others had ended training: {_LEAVE_BY}")
    behind = [w for w in members if w.beat.doing is Activity.EVALUATING and not w.done]
    if not all(any(_said_for(w) > limit_s for w in side) for side in (in_step, behind)):
        return None
    strays = _later(in_step, behind)
    if strays:
        return PlacesApart(strays, f"it was in a step while the others were behind their loop: {_LEAVE_BY}")
    strays = _later(behind, in_step)
    if strays:
        return PlacesApart(strays, f"it was behind its loop while the others were in a step: {_LEAVE_BY}")
    names = f"worker {in_step[0].name} was in a step while {behind[0].name} was behind the loop"
    return PlacesApart((), f"workers are at different places of the script ({names}): {_LEAVE_BY}")


def _said_for(worker: Worker) -> float:
    """For how many seconds it has kept saying what it does; its silence does not count."""
    return worker.seen_s - worker.beat.since_s


def _later(some: Sequence[Worker], others: Sequence[Worker]) -> Sequence[Worker]:
    """``some``, if all of them began to train later than one of the others."""
    later = bool(some and others) and min(w.joined for w in some) > min(w.joined for w in others)
    return some if later else ()
