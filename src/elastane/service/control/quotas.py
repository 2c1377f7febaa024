"""What tenants may hold: their quota, and what others leave idle of theirs and lend.

What is idle is what the owner's jobs could not use even at their largest, so an owner never waits for a slot of its own
for longer than it takes to give it back: when its wishes grow there is less to borrow, and who borrowed is suspended.
Jobs that cannot be suspended never borrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elastane.policies.view import Ability, JobView
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

    def admits(self, need: int, view: JobView) -> bool:
        """Whether there is room for this job's least."""
        return need <= (self.left if _returns(view) else self.own)

    def take(self, need: int, view: JobView) -> None:
        """Give it room; of what is borrowed first, so that the quota is left for those who cannot borrow."""
        lent = min(self.borrowed, need) if _returns(view) else 0
        self.borrowed -= lent
        self.own -= need - lent

    def refusal(self, borrowed: int, view: JobView) -> str:
        """Why there is no room for this job."""
        more = f" and has borrowed {borrowed} more" if borrowed else ""
        never = "" if _returns(view) else f"; {_kind(view)} never borrow what others leave free"
        return f"tenant {self.quota.tenant} is at its quota of {counted(self.quota.slots or 0, 'slot')}{more}{never}"


def _kind(view: JobView) -> str:
    return "commands" if Ability.SUSPEND not in view.abilities else "non-preemptible jobs"


def _returns(view: JobView) -> bool:
    """Whether it can be made to give back what it holds."""
    return Ability.SUSPEND in view.abilities and view.request.preemptible


def allowances(
    quotas: Iterable[QuotaInfo], views: Mapping[str, JobView], slots: int
) -> dict[str, tuple[Allowance, int]]:
    """(allowance, how much of it is borrowed) of every tenant with a quota, on a cluster of so many slots."""
    limited = {quota.tenant: quota for quota in quotas if quota.slots is not None}
    wishes: Counter[str] = Counter()
    for view in views.values():
        wishes[view.tenant] += view.request.gpus_of(view.request.max_workers)
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
