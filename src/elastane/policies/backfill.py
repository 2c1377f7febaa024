"""Implements the rules of backfilling: run-time forecasts, shadow times and reservations.

``OneReserved`` is EASY: the first job that does not fit gets a reservation at its *shadow time*, the earliest instant
at which enough running jobs are expected to have ended; a later job may start if it ends before that, or if the
reservation holds in spite of it.  Both are checked on nodes, with the placer that grants will come from.
``AllReserved`` is conservative backfilling: every waiting job gets a reservation.  Reservations count GPUs of the whole
cluster, so with jobs that need particular nodes they are a forecast rather than a promise.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from elastane.cluster import Grant
from elastane.kit.durations import duration
from elastane.models.speed import SpeedModel
from elastane.policies.fifo import free_gpus, gpus_of
from elastane.policies.lowering.place import place
from elastane.policies.lowering.room import Room
from elastane.policies.plan import Want
from elastane.policies.reasons import Gpus, Job, are, said
from elastane.policies.view import JobView, View

GRACE_S = 1e-6
"""Tolerance for rounding when an end is compared with a reservation."""

_SOON_S = 1e-3
"""Remaining time assumed for a job that has overrun its estimate: it may end any moment."""


_Held = tuple[JobView, Grant]


@dataclass(frozen=True)
class Forecast:
    """Estimates run times from remaining work and speed at the requested size, times ``inflation``.

    A job without a speed model counts with the run time its owner declared, else with the speed of a running job
    of the same application; where neither is known its work is read as seconds.
    """

    view: View
    inflation: float = 1.0
    _rates: dict[tuple[int, int], float] = field(default_factory=dict)
    _peers: dict[str, SpeedModel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for _, job in sorted(self.view.jobs.items()):
            if job.speed is not None:
                self._peers.setdefault(job.app, job.speed)

    def runtime_s(self, job: JobView) -> float:
        """Returns seconds until the job would end if it had its GPUs from now on; infinite when unknown."""
        left = job.remaining
        if left is None:
            return float("inf")
        if job.speed is None and job.declared_s is not None and job.grant is None:
            return max(self.inflation * job.declared_s, _SOON_S) + self._restart_s(job)
        rate = self._rate(job)
        seconds = self.inflation * left.mean / rate if rate > 0.0 else float("inf")
        return max(seconds, _SOON_S) + self._restart_s(job)

    def _restart_s(self, job: JobView) -> float:
        if job.grant is None or job.ledger.last_change_s is None:
            return job.restart_s
        return max(job.ledger.last_change_s + job.restart_s - self.view.now_s, 0.0)

    def _rate(self, job: JobView) -> float:
        speed = job.speed or self._peers.get(job.app)
        if speed is None:
            return 1.0
        workers = job.request.workers
        key = (id(speed), workers)
        if key not in self._rates:
            per_node = max((node.gpus for node in self.view.nodes.values()), default=1) or 1
            nodes, counts = np.array([-(-workers // per_node)]), np.array([workers])
            self._rates[key] = float(speed.rates(nodes, counts)[0])
        return self._rates[key]


class OneReserved:
    """EASY backfilling: one reservation, for the head.  Call ``consider`` for every waiting job, in queue order."""

    def __init__(self, view: View, running: Sequence[JobView], forecast: Forecast) -> None:
        self.starts: list[JobView] = []
        self.explain: dict[str, str] = {}
        self._view, self._forecast = view, forecast
        self._held: list[_Held] = [(job, job.grant) for job in running if job.grant]
        self._room = _room(view, self._held)
        self._head: JobView | None = None
        self._shadow_s = np.inf
        self._staying: list[_Held] = []  # jobs still running at the shadow time

    def consider(self, job: JobView) -> None:
        """Starts a job, makes it the head with a reservation, or leaves it waiting."""
        grant = _place(self._room, job)
        if self._head is None:
            if grant is not None:
                self._start(job, grant)
            else:
                self._reserve(job)
        elif grant is None:
            self.explain[job.id] = _does_not_fit(job, self._room)
        elif self._may_pass(job, grant, self._head):
            self._start(job, grant)

    def _start(self, job: JobView, grant: Grant) -> None:
        self._room.take(grant, job.request)
        self._held.append((job, grant))
        self.starts.append(job)

    def _reserve(self, job: JobView) -> None:
        """Finds the shadow time: the first expected end of a running job after which this one fits."""
        ends = sorted(
            ((self._forecast.runtime_s(x), x.id, (x, grant)) for x, grant in self._held), key=_first_two
        )
        held = [item for _, _, item in ends]

        def fits_after(ended: int) -> bool:
            return _place(_room(self._view, held[ended:]), job) is not None

        ended = bisect_left(range(len(held) + 1), True, key=fits_after)
        if ended > len(held):
            # A job that could not start even on an empty cluster must not hold the others back.
            self.explain[job.id] = said(
                "needs ", Gpus(gpus_of(job)), " so placed as the usable nodes cannot offer"
            )
            return
        wait_s = ends[ended - 1][0] if ended else 0.0
        self._head, self._shadow_s = job, self._view.now_s + wait_s
        self._staying = held[ended:]
        self.explain[job.id] = said(_does_not_fit(job, self._room), f"; reserved to start {_when(wait_s)}")

    def _may_pass(self, job: JobView, grant: Grant, head: JobView) -> bool:
        """Tells whether a job ends before the shadow time, or leaves room for the head to start beside it."""
        seconds = self._forecast.runtime_s(job)
        if seconds < np.inf and self._view.now_s + seconds <= self._shadow_s + GRACE_S:
            return True
        staying: list[_Held] = [*self._staying, (job, grant)]
        then = _room(self._view, self._staying)
        spare = then.total_free_gpus() - gpus_of(head)
        if gpus_of(job) <= spare and _place(_room(self._view, staying), head) is not None:
            self._staying = staying
            return True
        self.explain[job.id] = said(
            f"would run {_seconds(seconds)} and delay ",
            Job(head.id),
            f", which starts {_when(self._shadow_s - self._view.now_s)}; beside it ",
            Gpus(spare),
            f" {'is' if spare == 1 else 'are'} spare, this needs {gpus_of(job)}",
        )
        return False


class AllReserved:
    """Conservative backfilling: reserves GPUs by count for every job; one that starts now must also find its nodes."""

    def __init__(self, view: View, running: Sequence[JobView], forecast: Forecast) -> None:
        self.starts: list[JobView] = []
        self.explain: dict[str, str] = {}
        self._now_s, self._forecast = view.now_s, forecast
        self._room = _room(view, [(job, job.grant) for job in running if job.grant])
        self._profile = _Profile(view.now_s, free_gpus(view, running))
        for job in running:
            self._profile.free_from(view.now_s + forecast.runtime_s(job), gpus_of(job))

    def consider(self, job: JobView) -> None:
        """Starts a job, or reserves the earliest time at which it delays no job ahead of it."""
        seconds, need = self._forecast.runtime_s(job), gpus_of(job)
        start_s = self._profile.earliest(need, seconds)
        grant = _place(self._room, job) if start_s <= self._now_s else None
        self._profile.reserve(start_s, seconds, need)
        if grant is not None:
            self._room.take(grant, job.request)
            self.starts.append(job)
            return
        self.explain[job.id] = said(
            "needs ",
            Gpus(need),
            f" for {_seconds(seconds)}, {are(self._room.total_free_gpus())} free now; "
            f"reserved to start {_when(start_s - self._now_s)} so that nobody ahead is delayed",
        )


def _first_two(end: tuple[float, str, _Held]) -> tuple[float, str]:
    return end[:2]


def _room(view: View, held: Sequence[_Held]) -> Room:
    room = Room.of(view)
    for job, grant in held:
        room.take(grant, job.request)
    return room


def _place(room: Room, job: JobView) -> Grant | None:
    return place(room, job.request, Want(job.request.workers))


def _does_not_fit(job: JobView, room: Room) -> str:
    need, free = gpus_of(job), room.total_free_gpus()
    return said("needs ", Gpus(need), f", {are(free)} free", " but not so placed" if free >= need else "")


def _when(seconds: float) -> str:
    return f"in about {duration(seconds)}" if seconds < np.inf else "at an unknown time"


def _seconds(seconds: float) -> str:
    return duration(seconds) if seconds < np.inf else "an unknown time"


class _Profile:
    """Keeps the free GPUs over time as a list of changes, and finds the earliest gap in it."""

    def __init__(self, now_s: float, free: int) -> None:
        self._changes: list[tuple[float, int]] = [(now_s, free)]

    def free_from(self, when_s: float, gpus: int) -> None:
        """Adds ``gpus`` free GPUs (a negative number takes them) from ``when_s`` on."""
        if when_s < np.inf:
            insort(self._changes, (when_s, gpus))

    def earliest(self, gpus: int, seconds: float) -> float:
        """Returns the first time from which ``gpus`` stay free for ``seconds``; infinite if there is none."""
        free, since_s = 0, np.inf
        for number, (when_s, change) in enumerate(self._changes):
            if since_s < np.inf and when_s - since_s >= seconds - GRACE_S:
                return since_s
            free += change
            more = number + 1 < len(self._changes) and self._changes[number + 1][0] == when_s
            if free < gpus and not more:
                since_s = np.inf
            elif free >= gpus and since_s == np.inf:
                since_s = when_s
        return since_s

    def reserve(self, start_s: float, seconds: float, gpus: int) -> None:
        """Takes ``gpus`` from ``start_s`` on, for ``seconds``."""
        if start_s < np.inf:
            self.free_from(start_s, -gpus)
            self.free_from(start_s + seconds, gpus)
