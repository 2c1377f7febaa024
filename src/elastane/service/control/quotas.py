"""Quotas limit what tenants may hold; what an owner leaves idle of its quota is lent to others.

What is idle is what the owner's jobs could not use even at their largest, so an owner never waits for a slot of its own
for longer than it takes to give it back: when its wishes grow there is less to borrow, and who borrowed is suspended.
Jobs that cannot be suspended never borrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elastane.policies.view import Ability
from elastane.scheduling.abilities_by_kind import ABILITIES
from elastane.scheduling.facts import JobFacts
from elastane.service.messages import QuotaInfo
from elastane.service.wording import counted


@dataclass(slots=True)
class Allowance:
    """What is left for one tenant, as its jobs are let in one after the other."""

    quota: QuotaInfo
    own: int
    borrowed: int = 0

    @property
    def left(self) -> int:
        """For jobs that can be suspended."""
        return self.own + self.borrowed

    def admits(self, need: int, job: JobFacts) -> bool:
        """Whether there is room for this job's least."""
        return need <= (self.left if job.returns else self.own)

    def take(self, need: int, job: JobFacts) -> None:
        """Give it room; of what is borrowed first, so that the quota is left for those who cannot borrow."""
        lent = min(self.borrowed, need) if job.returns else 0
        self.borrowed -= lent
        self.own -= need - lent

    def refusal(self, borrowed: int, job: JobFacts) -> str:
        """Why there is no room for this job."""
        more = f" and has borrowed {borrowed} more" if borrowed else ""
        never = "" if job.returns else f"; {_unreturnable(job)} never borrow what others leave free"
        return f"tenant {self.quota.tenant} is at its quota of {counted(self.quota.slots or 0, 'slot')}{more}{never}"


def _unreturnable(job: JobFacts) -> str:
    if ABILITIES[job.kind] is Ability.NONE:
        return "commands"
    return "jobs that were put on a node" if job.settled else "non-preemptible jobs"


def allowances(
    quotas: Iterable[QuotaInfo], jobs: Mapping[str, JobFacts], slots: int
) -> dict[str, tuple[Allowance, int]]:
    """(allowance, how much of it is borrowed) of every tenant with a quota, on a cluster of so many slots."""
    limited = {quota.tenant: quota for quota in quotas if quota.slots is not None}
    wishes: Counter[str] = Counter()
    for job in jobs.values():
        wishes[job.tenant] += job.request.gpus_of(job.request.max_workers)
    lent = _divided(limited, wishes, slots)
    return {
        tenant: (Allowance(quota, quota.slots or 0, lent.get(tenant, 0)), lent.get(tenant, 0))
        for tenant, quota in limited.items()
    }


def _divided(limited: Mapping[str, QuotaInfo], wishes: Mapping[str, int], slots: int) -> dict[str, int]:
    """What is lent, slot by slot to whoever wants more than its quota."""
    beyond = {tenant: wishes[tenant] - (quota.slots or 0) for tenant, quota in limited.items()}
    idle = min(slots, sum(max(0, -beyond[tenant]) for tenant, quota in limited.items() if quota.lends))
    lent: Counter[str] = Counter()
    while idle > 0 and (needy := sorted(t for t, more in beyond.items() if more > lent[t])):
        for tenant in needy[:idle]:
            lent[tenant] += 1
        idle -= len(needy[:idle])
    return dict(lent)
