"""States what each size is worth to a job in the next epoch, and hands out GPUs by the largest gain per GPU.

    Δ(a) = l(k) − l(k + n(a)),      n(a) = f(a)·(T − S·[a ≠ a_now])

====  ==========================================================================================
l     normalised loss (``loss_curves``), k the work at its latest report
f(a)  work per second with a workers
T, S  length of an epoch; seconds that a change of the job's size takes
====  ==========================================================================================

Without S the gain is concave, and steps of one worker are the published greedy.  The seconds of a restart put a peak
where the job stands, so a step may have several workers: it goes as far as its gain per worker is largest.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.optimus.resource_pool import ResourcePool, Task, total


@dataclass(frozen=True, slots=True)
class Bid:
    """What a job gains with each number of workers, from none: if it has to be restarted for it, and if it stays."""

    moving: FloatArray
    staying: FloatArray

    def worth(self, workers: int, stays: bool) -> float:
        """Returns the gain with so many workers; 0 with more than it bids for."""
        gains = self.staying if stays else self.moving
        return float(gains[workers]) if workers < len(gains) else 0.0

    def from_now(self, workers: int) -> FloatArray:
        """Returns the gains with each number of workers for a job that has so many now (0: it waits)."""
        if not 0 < workers < len(self.moving):
            return self.moving
        gains = self.moving.copy()
        gains[workers] = self.staying[workers]
        return gains


def bid(rates: FloatArray, fall: Callable[[FloatArray], FloatArray], epoch_s: float, restart_s: float) -> Bid:
    """Returns the bid of a job with these ``rates``, by number of workers, whose loss will ``fall`` so with work."""
    return Bid(fall(rates * max(epoch_s - restart_s, 0.0)), fall(rates * epoch_s))


class Steepest:
    """The optimistic prior: a job of which nothing is known gains as much as any known job would at its size."""

    def __init__(self, bids: Iterable[Bid]) -> None:
        self._known = list(bids)
        longest = max((len(known.moving) for known in self._known), default=0)
        self._moving, self._staying = np.zeros(longest), np.zeros(longest)
        for known in self._known:
            for most, gains in ((self._moving, known.moving), (self._staying, known.staying)):
                np.maximum(most[: len(gains)], gains, out=most[: len(gains)])
                np.maximum(most[len(gains) :], gains[-1], out=most[len(gains) :])

    def bid(self, rates: FloatArray, epoch_s: float, restart_s: float) -> Bid:
        """Returns the bid of an unknown job; where all are unknown, each further worker gains less than the last."""
        if not self._known:
            one = float(rates[rates > 0.0][0]) * epoch_s if (rates > 0.0).any() else 1.0
            return bid(rates, lambda work: work / (work + one), epoch_s, restart_s)
        at = np.minimum(np.arange(len(rates)), len(self._moving) - 1)
        runs = rates > 0.0
        return Bid(np.where(runs, self._moving[at], 0.0), np.where(runs, self._staying[at], 0.0))


@dataclass(slots=True)
class Growth:
    """A job while workers are handed out: how many it has, and the gains with each number of them."""

    job_id: str
    gains: FloatArray
    workers: int
    task: Task

    def step(self, stock: ResourcePool) -> tuple[float, int] | None:
        """Returns the gain per GPU and the workers to add of the best step that fits; None if none gains."""
        room = stock.count(self.task.need, max(len(self.gains) - 1 - self.workers, 0))
        if room <= 0:
            return None
        more = self.gains[self.workers + 1 : self.workers + 1 + room] - self.gains[self.workers]
        per_worker = more / np.arange(1, room + 1)
        best = int(np.argmax(per_worker))
        gain = float(per_worker[best])
        return (gain / (self.task.amount or 1.0), best + 1) if gain > 0.0 else None


def share_out(growths: Sequence[Growth], stock: ResourcePool) -> None:
    """Adds workers in place, always where a GPU gains most, until none gains or none is free; ties go to the first."""
    heap: list[tuple[float, int, int]] = []

    def offer(number: int) -> None:
        step = growths[number].step(stock)
        if step is not None:
            heapq.heappush(heap, (-step[0], number, step[1]))

    for number in range(len(growths)):
        offer(number)
    while heap:
        _, number, more = heapq.heappop(heap)
        growth = growths[number]
        need = total((growth.task.need, more))
        if stock.fits(need):
            stock.take(need)
            growth.workers += more
        offer(number)
