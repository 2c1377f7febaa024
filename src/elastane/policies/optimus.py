"""Optimus (EuroSys'18): give the next task to the job whose remaining time it shortens most.

Every job first gets one worker (and one parameter server); then workers and servers are handed out one by one to
the largest marginal gain

    (Q/f(p, w) − Q/f(p', w')) / amount of the dominant resource the added task takes,

Q being the remaining work and f the speed.  ``optimus`` uses online estimates of both; ``optimus-oracle``, the
baseline of Pollux's evaluation, reads the truth.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.contract import Needs, Policy
from elastane.policies.plan import Plan, Spread, Want, Wants
from elastane.policies.view import Ability, Info, JobView, View, has


@dataclass(frozen=True)
class Optimus(Policy):
    """Marginal gains from estimates.

    Attributes:
        young_factor: Multiplies the gain of jobs with less than ``young_s`` seconds of service (paper: 0.95); 1 is off.
        young_s: What counts as young.
    """

    young_factor: float = 1.0
    young_s: float = 600.0

    name: ClassVar[str] = "optimus"
    title: ClassVar[str] = "Optimus"
    paper: ClassVar[str] = "Peng et al., EuroSys'18"
    needs: ClassVar[Needs] = Needs(
        info=Info.REMAINING | Info.SPEED, period_s=600.0, on_arrival=False, on_finish=False
    )
    elastic: ClassVar[bool] = True

    def decide(self, view: View) -> Plan:
        """Start everybody with one worker in order of arrival, then climb by marginal gain."""
        free = view.total_gpus
        per_node = max((node.gpus for node in view.nodes.values()), default=1)
        sizes: dict[str, int] = {}
        explain: dict[str, str] = {}
        for job in sorted(view.jobs.values(), key=lambda job: (job.submit_s, job.id)):
            least = self._least(job)
            if least > free:
                explain[job.id] = f"needs {least} GPUs to start, {free} are left after those before it"
                continue
            sizes[job.id] = least
            free -= least
        self._climb(view, sizes, free, per_node)
        order = sorted(sizes, key=lambda i: sizes[i])
        wants = {i: Want(sizes[i], spread=Spread.EMPTIEST) for i in order}
        return Plan(Wants(wants), explain=explain)

    def _least(self, job: JobView) -> int:
        if job.pinned:
            return job.workers
        return max(job.request.min_workers, 1) if has(job.abilities, Ability.RESIZE) else job.request.workers

    def _climb(self, view: View, sizes: dict[str, int], free: int, per_node: int) -> None:
        """Hand out single workers to the largest gain until none is left or none gains."""
        times = {}
        heap: list[tuple[float, int, str]] = []
        for number, job_id in enumerate(sizes):
            job = view.jobs[job_id]
            times[job_id] = self._remaining_s(job, min(free + sizes[job_id], view.total_gpus), per_node)
            self._offer(heap, job, number, sizes[job_id], times[job_id], view.now_s)
        while free > 0 and heap:
            negative_gain, number, job_id = heapq.heappop(heap)
            if negative_gain >= 0:
                break
            sizes[job_id] += 1
            free -= 1
            self._offer(heap, view.jobs[job_id], number, sizes[job_id], times[job_id], view.now_s)

    def _offer(
        self,
        heap: list[tuple[float, int, str]],
        job: JobView,
        number: int,
        size: int,
        remaining_s: FloatArray,
        now_s: float,
    ) -> None:
        if size + 1 < len(remaining_s):
            gain = float(remaining_s[size] - remaining_s[size + 1])
            if job.ledger.held_at(now_s) < self.young_s:
                gain *= self.young_factor
            heapq.heappush(heap, (-gain, number, job.id))

    def _remaining_s(self, job: JobView, largest: int, per_node: int) -> FloatArray:
        """Remaining seconds with 0, 1, … workers, as far as the job may grow."""
        limit = min(largest, self._most(job))
        workers = np.arange(limit + 1)
        speed, remaining = job.speed, job.remaining
        if speed is None or remaining is None:
            return np.full(2, np.inf)[: limit + 1]  # nothing known: one worker, to learn
        rates = speed.rates(-(-workers // per_node), workers)
        with np.errstate(divide="ignore"):
            out: FloatArray = np.where(rates > 0, remaining.mean / rates, np.inf)
        return out

    def _most(self, job: JobView) -> int:
        if job.pinned or not has(job.abilities, Ability.RESIZE):
            return self._least(job)
        speed = job.speed
        if speed is None:
            return max(self._least(job), 1)
        explored = max(2 * speed.max_profiled, 1)
        return max(min(job.request.max_workers, speed.max_useful, explored), self._least(job))


@dataclass(frozen=True)
class OptimusOracle(Optimus):
    """Optimus's allocation with true remaining work and true speed, as in Pollux's evaluation."""

    name: ClassVar[str] = "optimus-oracle"
    title: ClassVar[str] = "Optimus+Oracle"
    needs: ClassVar[Needs] = Needs(
        info=Info.REMAINING | Info.SPEED, period_s=60.0, on_arrival=False, on_finish=False, oracle=True
    )
