"""Dominant resource fairness (Ghodsi et al., NSDI'11), with gangs.

Progressive filling: the tenant u with the smallest weighted dominant share

    s_u = max_r (usage of r by u ÷ capacity of r) ÷ weight of u

gets its next gang, until no tenant's next gang fits.  A resource that is not accounted (unlimited) has no share.
Shares are those of the moment: a long gang started in a quiet hour goes on, unless ``preempt`` lets tenants below their
fair share take gangs back from those above theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import ClassVar

from elastane.cluster import Grant
from elastane.policies.contract import Needs, Policy
from elastane.policies.fifo import queue_key, running_and_queue
from elastane.policies.lowering.place import place
from elastane.policies.lowering.room import Room
from elastane.policies.plan import Fill, Order, Plan, Spread, Want
from elastane.policies.reasons import Gpus, Part, listed, said
from elastane.policies.view import JobView, Tenant, View
from elastane.resources import Resources

_NAMES = ("GPUs", "CPUs", "memory", "bandwidth")


@dataclass(frozen=True)
class Drf(Policy):
    """Equal dominant shares for tenants, in proportion to their weights.

    Attributes:
        preempt: Take gangs from tenants above their fair share, the youngest first, for tenants below theirs whose
            next gang does not fit.
    """

    preempt: bool = False

    name: ClassVar[str] = "drf"
    title: ClassVar[str] = "Dominant resource fairness"
    paper: ClassVar[str] = "Ghodsi et al., NSDI'11"
    needs: ClassVar[Needs] = Needs()

    def decide(self, view: View) -> Plan:
        """Keeps running gangs, then starts waiting ones by progressive filling."""
        running, queue = running_and_queue(view)
        filling = _Filling(view, running, queue)
        filling.fill()
        if self.preempt:
            filling.reclaim()
        return Plan(Order(tuple(filling.chosen), Fill.SKIP, Spread.BEST_FIT), explain=filling.explain())


class _Filling:
    """The state of one progressive filling.  ``chosen`` are running and picked jobs, in the order of the picks."""

    def __init__(self, view: View, running: Sequence[JobView], queue: Sequence[JobView]) -> None:
        self.chosen: dict[str, tuple[JobView, Grant]] = {}
        self._view, self._capacity, self._room = view, view.total_capacity, Room.of(view)
        self._usage = {job.tenant: Resources() for job in view.jobs.values()}
        self._pending: dict[str, list[JobView]] = {tenant: [] for tenant in self._usage}
        for job in queue:
            self._pending[job.tenant].append(job)
        for job in running:
            if job.grant is not None:
                self._commit(job, job.grant)

    def fill(self) -> None:
        """Starts the next gang of the tenant with the smallest share while any fits; a blocked tenant drops out."""
        candidates = set(self._pending)
        while candidates:
            tenant = self._poorest(candidates)
            if not self._start_next(tenant):
                candidates.discard(tenant)

    def reclaim(self) -> None:
        """Stops gangs of tenants above their fair share, largest share first, while one below its own is blocked."""
        blocked = {tenant for tenant, jobs in self._pending.items() if jobs}
        stopped: list[JobView] = []
        while blocked:
            tenant = self._poorest(blocked)
            victims = self._take_back(tenant) if self._share(tenant) < self._fair_share() else []
            stopped += victims
            if not victims or not self._pending[tenant]:
                blocked.discard(tenant)
        for job in stopped:  # what was freed in excess may go to any tenant, to them too
            self._pending[job.tenant] = sorted([*self._pending[job.tenant], job], key=queue_key)
        if stopped:
            self.fill()

    def explain(self) -> dict[str, str]:
        """Says for each gang that was not chosen why it waits."""
        free = self._room.total_free_gpus()
        return {
            job.id: said(
                f"tenant {job.tenant} has ",
                self._standing(job.tenant),
                "; this gang needs ",
                _amounts(_demand(job)),
                ", ",
                Gpus(free),
                " is free" if free == 1 else " are free",
            )
            for job in self._view.jobs.values()
            if job.id not in self.chosen
        }

    # ---- shares ----------------------------------------------------------------------------------------

    def _weight(self, tenant: str) -> float:
        return self._view.tenants.get(tenant, Tenant()).weight

    def _share(self, tenant: str) -> float:
        return self._usage[tenant].dominant_share(self._capacity) / self._weight(tenant)

    def _fair_share(self) -> float:
        return 1.0 / sum(self._weight(tenant) for tenant in self._usage)

    def _poorest(self, tenants: set[str]) -> str:
        # Rounded, so that equal shares are equal however they were summed up.
        return min(tenants, key=lambda tenant: (round(self._share(tenant), 9), tenant))

    def _standing(self, tenant: str) -> str:
        parts = zip(_NAMES, astuple(self._usage[tenant]), astuple(self._capacity), strict=True)
        shares = {name: used / have for name, used, have in parts if have}
        top = max(shares, key=lambda name: shares[name], default=_NAMES[0])
        return said(
            f"{shares.get(top, 0.0):.0%} of all ",
            Gpus() if top == _NAMES[0] else top,
            f" at weight {self._weight(tenant):g}",
        )

    # ---- single gangs ----------------------------------------------------------------------------------

    def _commit(self, job: JobView, grant: Grant) -> None:
        self.chosen[job.id] = (job, grant)
        self._room.take(grant, job.request)
        self._usage[job.tenant] = self._usage[job.tenant] + _demand(job)

    def _start_next(self, tenant: str) -> bool:
        job = next(iter(self._pending[tenant]), None)
        grant = place(self._room, job.request, Want(job.request.workers)) if job else None
        if job is None or grant is None:
            return False
        self._commit(job, grant)
        self._pending[tenant].pop(0)
        return True

    def _take_back(self, tenant: str) -> list[JobView]:
        """Stops as many gangs as the tenant's next one needs, or none if that is not enough."""
        before = dict(self.chosen), dict(self._usage), self._room
        victims: list[JobView] = []
        while (victim := self._victim(tenant)) is not None:
            victims.append(victim)
            del self.chosen[victim.id]
            self._usage[victim.tenant] = self._usage[victim.tenant] - _demand(victim)
            self._room = Room.of(self._view)
            for job, grant in self.chosen.values():
                self._room.take(grant, job.request)
            if self._start_next(tenant):
                return victims
        self.chosen, self._usage, self._room = before
        return []

    def _victim(self, tenant: str) -> JobView | None:
        """Returns the youngest running gang of the tenant with the largest share that can spare it."""
        spare = [job for job, _ in self.chosen.values() if job.tenant != tenant and self._can_spare(job)]
        return max(
            spare,
            key=lambda job: (self._share(job.tenant), job.ledger.last_change_s or 0.0, job.id),
            default=None,
        )

    def _can_spare(self, job: JobView) -> bool:
        if job.grant is None or self._view.must_keep(job):
            return False
        left = (self._usage[job.tenant] - _demand(job)).dominant_share(self._capacity)
        return left / self._weight(job.tenant) >= self._fair_share() - 1e-9


def _demand(job: JobView) -> Resources:
    return job.request.worker * job.request.workers


def _amounts(demand: Resources) -> str:
    amounts = zip(_NAMES, astuple(demand), strict=True)
    needed: list[Part] = [Gpus(float(n)) if name == _NAMES[0] else f"{n:g} {name}" for name, n in amounts if n]
    return listed(needed, " and ")
