"""Hands out tasks one by one to the job whose remaining time each shortens most, per amount it takes.

    gain = max( (Q/f(p, w) − Q/f(p+1, w)) / N,  (Q/f(p, w) − Q/f(p, w+1)) / O )

====  ==========================================================================================
Q     remaining work
f     speed with p parameter servers and w workers (p = 0 for all-reduce)
N, O  amount of its dominant resource that one more server, one more worker takes
====  ==========================================================================================

Reference: Peng et al., Optimus, EuroSys 2018, section 4.1.  O((J + tasks)·log J) for J jobs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

from elastane.policies.optimus.resource_pool import Amounts, ResourcePool, Task, total
from elastane.policies.optimus.speed_table import SpeedSurface

Step = tuple[int, int]
"""Servers and workers added."""

_WORKER: Step = (0, 1)
_SERVER: Step = (1, 0)
_BOTH: Step = (1, 1)


@dataclass(slots=True)
class Claim:
    """What one job has been given so far, and how far it may grow; without ``surface`` it does not grow."""

    job_id: str
    servers: int
    workers: int
    worker: Task
    server: Task | None = None
    most_servers: int = 0
    most_workers: int = 0
    surface: SpeedSurface | None = None
    work: float = 0.0
    factor: float = 1.0

    @property
    def need(self) -> Amounts:
        """Returns the amounts that all its tasks take together."""
        return self.cost((self.servers, self.workers))

    def cost(self, step: Step) -> Amounts:
        """Returns the amount of each resource that a step takes."""
        if step == _WORKER:
            return self.worker.need
        if self.server is None:
            return total((self.worker.need, step[1]))
        if step == _SERVER:
            return self.server.need
        return total((self.server.need, step[0]), (self.worker.need, step[1]))

    def seconds(self, step: Step = (0, 0)) -> float:
        """Returns the remaining time after a step; infinite where the job could not run."""
        assert self.surface is not None
        rate = self.surface.rate(self.servers + step[0], self.workers + step[1])
        return self.work / rate if rate > 0.0 else math.inf

    def best_step(self, stock: ResourcePool, pairs: bool) -> tuple[float, Step] | None:
        """Returns the largest gain among the steps that still fit, if any is positive; a worker wins a tie.

        A worker may be useless without a server and a server without a worker: with ``pairs``, where neither
        gains anything both are tried together.
        """
        if self.surface is None:
            return None
        now_s = self.seconds()
        grows = self.workers < self.most_workers and stock.fits(self.worker.need)
        best = (self._gain(now_s, _WORKER), _WORKER) if grows else (0.0, _WORKER)
        if self.servers < self.most_servers and stock.fits(self.cost(_SERVER)):
            gain = self._gain(now_s, _SERVER)
            if gain > best[0]:
                best = gain, _SERVER
            if best[0] <= 0.0 and pairs and grows and stock.fits(self.cost(_BOTH)):
                best = self._gain(now_s, _BOTH), _BOTH
        return best if best[0] > 0.0 else None

    def _gain(self, now_s: float, step: Step) -> float:
        then_s = self.seconds(step)
        if math.isinf(now_s) and math.isinf(then_s):
            # Neither runs.  A job that needs more before it can run at all goes on growing until it does.
            assert self.surface is not None
            return math.inf if self.surface.runs_later(self.servers, self.workers) else 0.0
        amount = self.worker.amount * step[1]
        if self.server is not None:
            amount += self.server.amount * step[0]
        saved_s = (now_s - then_s) * self.factor
        if amount > 0.0:
            return saved_s / amount
        return math.inf if saved_s > 0.0 else saved_s  # it takes nothing from other jobs


def climb(claims: Iterable[Claim], stock: ResourcePool, pairs: bool) -> None:
    """Grows claims by the largest gain until nothing gains or nothing fits.  Ties go to the earlier claim.

    What is free only shrinks, so a job none of whose steps fits is out for good; the others go on with the
    resources they still can use.
    """
    heap: list[tuple[float, int, Step, Claim]] = []

    def offer(number: int, claim: Claim) -> None:
        best = claim.best_step(stock, pairs)
        if best is not None:
            heapq.heappush(heap, (-best[0], number, best[1], claim))

    for number, claim in enumerate(claims):
        offer(number, claim)
    while heap:
        _, number, step, claim = heapq.heappop(heap)
        cost = claim.cost(step)
        if stock.fits(cost):
            stock.take(cost)
            claim.servers += step[0]
            claim.workers += step[1]
        offer(number, claim)
