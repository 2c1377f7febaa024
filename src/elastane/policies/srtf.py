"""Shortest remaining time (SRTF) and shortest remaining service (SRSF) first: clairvoyant, preemptive bounds.

SRTF orders by remaining seconds on the requested GPUs, SRSF by remaining seconds × GPUs.  Both read the truth and so
show what knowing it would be worth; neither is optimal once gangs leave gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from elastane.policies.contract import Needs, Policy
from elastane.policies.fifo import gpus_of
from elastane.policies.options import OptionError
from elastane.policies.plan import Fill, Order, Plan, Spread
from elastane.policies.reasons import Gpus, are, said
from elastane.policies.view import Info, JobView, View


@dataclass(frozen=True)
class Srtf(Policy):
    """Least remaining time first.

    Attributes:
        min_gain: A running job yields only to one that is shorter by more than this many times the running job's
            restart (time for SRTF, time × GPUs for SRSF).  0 swaps at every inversion, 1 only where it pays.
    """

    min_gain: float = 0.0

    name: ClassVar[str] = "srtf"
    title: ClassVar[str] = "SRTF (oracle)"
    unit: ClassVar[str] = "s"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs(info=Info.REMAINING | Info.SPEED, oracle=True)

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_gain < float("inf"):
            raise OptionError(f"{self.name}: min_gain must be 0 or more, not {self.min_gain}")

    def decide(self, view: View) -> Plan:
        """Orders all jobs by what is left, running jobs first among equals."""
        per_node = max((node.gpus for node in view.nodes.values()), default=1) or 1
        left = {job.id: self._left(job, per_node) for job in view.jobs.values()}
        bonus = {job.id: self._bonus(job) for job in view.jobs.values()}

        def key(job: JobView) -> tuple[float, bool, float, str]:
            # Rounded to a microsecond, so that rounding errors do not make a tie an inversion.
            return (round(left[job.id] - bonus[job.id], 6), job.grant is None, job.submit_s, job.id)

        order = sorted(view.jobs.values(), key=key)
        return Plan(
            Order(tuple(job.id for job in order), Fill.SKIP, Spread.BEST_FIT),
            explain=self._explain(order, left, view.total_gpus),
        )

    def _left(self, job: JobView, per_node: int) -> float:
        """Returns the remaining time (SRSF: GPU time); infinite, so last, for a job of unknown length or speed."""
        speed, remaining, workers = job.speed, job.remaining, job.request.workers
        if speed is None or remaining is None:
            return float("inf")
        rate = float(speed.rates(np.array([-(-workers // per_node)]), np.array([workers]))[0])
        return self._size(job) * remaining.mean / rate if rate > 0.0 else float("inf")

    def _bonus(self, job: JobView) -> float:
        return self.min_gain * job.restart_s * self._size(job) if job.grant is not None else 0.0

    def _size(self, job: JobView) -> float:  # noqa: ARG002
        return 1.0

    def _explain(self, order: list[JobView], left: dict[str, float], free: int) -> dict[str, str]:
        explain: dict[str, str] = {}
        for position, job in enumerate(order):
            need = gpus_of(job)
            if need <= free:
                free -= need
                continue
            explain[job.id] = said(
                f"number {position + 1} with {left[job.id]:.0f} {self.unit} left; needs ",
                Gpus(need),
                f", {are(free)} left by shorter jobs",
            )
        return explain


@dataclass(frozen=True)
class Srsf(Srtf):
    """Least remaining service (time × GPUs) first."""

    name: ClassVar[str] = "srsf"
    title: ClassVar[str] = "SRSF (oracle)"
    unit: ClassVar[str] = "GPU s"

    def _size(self, job: JobView) -> float:
        return float(gpus_of(job))
