"""Chooses the running jobs that make room for a waiting one: those whose stop destroys least, at their epoch ends.

    preempt  ⇔  Σ w_j·S_j < (t0 − t1)·w_q,      t1 = max p_j

======== ========================================================================================
w, S     GPUs of a job; seconds that its restart takes
p_j      seconds to the end of the epoch of a victim j
t0       seconds until the waiting job q would start without preemption, by expected completions
E_q, L_j predicted run time of q, remaining run time of j; victims have L_j > E_q + S_j
======== ========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Runner:
    """A running job: its GPUs, predicted remaining seconds, seconds to the end of its epoch, and those of a restart."""

    id: str
    gpus: int
    left_s: float
    epoch_end_s: float
    restart_s: float
    stoppable: bool = True

    @property
    def destroyed(self) -> float:
        """Returns the GPU seconds that a stop of this job costs."""
        return self.gpus * self.restart_s


def by_end(running: Iterable[Runner]) -> list[Runner]:
    """Returns the running jobs in the order in which they are expected to end."""
    return sorted(running, key=lambda runner: (runner.left_s, runner.id))


def by_loss(running: Iterable[Runner]) -> list[Runner]:
    """Returns the running jobs, those first of which a stop destroys least per GPU; among equals the nearest end."""
    return sorted(running, key=lambda runner: (runner.restart_s, runner.epoch_end_s, runner.id))


def start_without(need: int, idle: int, ends: Iterable[Runner]) -> float:
    """Returns in how many seconds so many GPUs are free if nobody is stopped: t0; infinite if that is unknown.

    ``ends`` are the running jobs ``by_end``.
    """
    if need <= idle:
        return 0.0
    for runner in ends:
        idle += runner.gpus
        if need <= idle:
            return runner.left_s
    return math.inf


def victims(
    gpus: int, takes_s: float, idle: int, without_s: float, running: Sequence[Runner]
) -> tuple[Runner, ...]:
    """Returns who of the running jobs (``by_loss``) makes room for one that ``takes_s``; nobody if it does not pay."""
    chosen: list[Runner] = []
    free = idle
    for runner in running:
        if free >= gpus:
            break
        if runner.stoppable and takes_s + runner.restart_s < runner.left_s < math.inf:
            chosen.append(runner)
            free += runner.gpus
    if free < gpus or not chosen:
        return ()
    for runner in sorted(chosen, key=lambda each: (-each.destroyed, -each.epoch_end_s, each.id)):
        if free - runner.gpus >= gpus:
            chosen.remove(runner)
            free -= runner.gpus
    with_s = max(runner.epoch_end_s for runner in chosen)
    saved = (without_s - with_s) * gpus
    pays = with_s < without_s and sum(runner.destroyed for runner in chosen) < saved - _SLACK
    return tuple(chosen) if pays else ()
