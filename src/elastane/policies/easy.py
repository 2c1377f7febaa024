"""EASY and conservative backfilling: later jobs may use idle GPUs if that delays no job ahead of them.

The rules themselves are in ``backfill``.  Everything is computed anew at every event; no reservation is carried
over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from elastane.kit.durations import duration
from elastane.policies.backfill import GRACE_S, AllReserved, Forecast, OneReserved
from elastane.policies.contract import Needs, Policy
from elastane.policies.fifo import running_and_queue
from elastane.policies.options import OptionError
from elastane.policies.plan import Admission, Fill, Order, Plan, Spread, Verdict
from elastane.policies.view import Info, JobView, View

_NEVER = float("inf")


@dataclass(frozen=True)
class Easy(Policy):
    """Backfilling in the order of the queue, without preemption.

    Attributes:
        reservations: ``one`` (EASY: only the first job that does not fit has one) or ``all`` (conservative).
        kill_on_overrun: End jobs that run longer than estimated, as batch systems do.
        inflation: Multiplies every estimate.
    """

    reservations: str = "one"
    kill_on_overrun: bool = False
    inflation: float = 1.0

    name: ClassVar[str] = "easy"
    title: ClassVar[str] = "EASY backfilling"
    paper: ClassVar[str] = "Lifka, JSSPP'95"
    needs: ClassVar[Needs] = Needs(info=Info.REMAINING | Info.SPEED)

    def __post_init__(self) -> None:
        if self.reservations not in ("one", "all"):
            raise OptionError(f"easy: reservations must be one or all, not {self.reservations!r}")
        if not 0.0 < self.inflation < _NEVER:
            raise OptionError(f"easy: inflation must be a positive number, not {self.inflation}")

    @property
    def ends_jobs(self) -> bool:
        """Returns ``kill_on_overrun``: batch systems end jobs at their limit, this policy only if asked to."""
        return self.kill_on_overrun

    def decide(self, view: View) -> Plan:
        """Keeps what runs, starts jobs from the head of the queue, and backfills the gaps."""
        running, queue = running_and_queue(view)
        forecast = Forecast(view, self.inflation)
        limits: Mapping[str, float] = view.memory or {}
        late = [job for job in running if view.now_s >= limits.get(job.id, _NEVER) + GRACE_S / 2]
        running = [job for job in running if job.id not in {other.id for other in late}]
        filled = (AllReserved if self.reservations == "all" else OneReserved)(view, running, forecast)
        for job in queue:
            filled.consider(job)
        kept = (*running, *filled.starts)
        limits = self._limits(kept, limits, forecast) if self.kill_on_overrun else {}
        return Plan(
            Order(tuple(job.id for job in kept), Fill.SKIP, Spread.BEST_FIT),
            explain=filled.explain,
            admissions={job.id: _overran(job, view.now_s) for job in late},
            wake_s=(min(limits.values()) + GRACE_S,) if limits else (),
            memory=limits or None,
        )

    def _limits(
        self, kept: tuple[JobView, ...], known: Mapping[str, float], forecast: Forecast
    ) -> dict[str, float]:
        """Returns when each job must have ended, in seconds: fixed at its start, forgotten when it stops."""
        limits = {
            job.id: known[job.id]
            if job.grant is not None and job.id in known
            else forecast.view.now_s + forecast.runtime_s(job)
            for job in kept
        }
        return {i: limit for i, limit in limits.items() if limit < _NEVER}


def _overran(job: JobView, now_s: float) -> Admission:
    ran_s = job.ledger.held_at(now_s)
    return Admission(Verdict.REJECT, f"stopped after {duration(ran_s)}: it ran longer than its estimate")
