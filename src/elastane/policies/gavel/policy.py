"""Gavel (OSDI'20): a policy is an optimisation over time fractions X[job, accelerator type]; rounds make them real.

``problem`` has the symbols and constraints, ``fairness``, ``finish_time`` and ``sums`` the objectives, ``account`` what
is remembered, and ``lowering.rounds`` the mechanism that turns fractions into this round's jobs.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from elastane.kit.durations import duration
from elastane.policies.contract import Needs, Policy
from elastane.policies.gavel.account import Account
from elastane.policies.gavel.fairness import Hierarchical, Inner, MaxMinFairness, WaterFilling
from elastane.policies.gavel.finish_time import FinishTimeFairness, Makespan
from elastane.policies.gavel.inputs import Entrants, entrants
from elastane.policies.gavel.objective import Allocation, Case, Objective
from elastane.policies.gavel.released_fifo import ReleasedFifo
from elastane.policies.gavel.sums import Fifo, MaxThroughput, MinCost
from elastane.policies.options import OptionError
from elastane.policies.plan import Plan, Received, Shares
from elastane.policies.view import Info, View
from elastane.suggest import did_you_mean

OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        "max_min_fairness": MaxMinFairness(),
        "water_filling": WaterFilling(),
        "finish_time_fairness": FinishTimeFairness(),
        "makespan": Makespan(),
        "max_throughput": MaxThroughput(),
        "min_cost": MinCost(),
        "fifo": Fifo(),
        "fifo_released": ReleasedFifo(),
        "hierarchical": Hierarchical(Inner.FAIRNESS),
        "hierarchical_fifo": Hierarchical(Inner.FIFO),
    }
)
"""What may be written as ``objective``."""

_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Gavel(Policy):
    """Time fractions per accelerator type, in rounds.

    Attributes:
        objective: What the fractions optimise, one of ``OBJECTIVES``.
        aware: Whether a job's speed on each type counts; otherwise all types it can run on are alike.
        reset_s: Γ, the least time between two computations of the fractions.
        round_s: The time that newcomers are credited half of; the length of a round unless a run overrides it.
    """

    objective: str = "max_min_fairness"
    aware: bool = True
    reset_s: float = 1920.0
    round_s: float = 360.0

    name: ClassVar[str] = "gavel"
    title: ClassVar[str] = "Gavel"
    paper: ClassVar[str] = "Narayanan et al., OSDI'20"
    needs: ClassVar[Needs] = Needs(
        info=Info.SPEED | Info.REMAINING | Info.DEADLINE | Info.PRICES,
        period_s=360.0,
        on_arrival=False,
        on_finish=False,
    )

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            known = ", ".join(OBJECTIVES)
            hint = did_you_mean(self.objective, OBJECTIVES)
            raise OptionError(f"gavel: unknown objective {self.objective!r}{hint} (known: {known})")
        for name, value in (("reset_s", self.reset_s), ("round_s", self.round_s)):
            if not 0.0 < value < float("inf"):
                raise OptionError(f"gavel: {name} must be above 0 and finite, not {value}")

    def decide(self, view: View) -> Plan:
        """Charge jobs for what they held, compute the fractions anew if they are due, and state both."""
        account = self._refreshed(Account.read(view.memory).charged(view), view)
        received = Received(
            {job: entry.got_s for job, entry in account.jobs.items()},
            {job: entry.short_s for job, entry in account.jobs.items()},
            self._types(view, account),
            OBJECTIVES[self.objective].fills,
        )
        shares = Shares({job: entry.share for job, entry in account.jobs.items()}, received)
        return Plan(shares, explain=self._explain(view, account), memory=account.as_json())

    def _refreshed(self, account: Account, view: View) -> Account:
        """The same account, or one with new fractions.

        They are due when Γ has passed and anything they were computed from has changed, and at once where nobody
        has any.
        """
        if account.jobs and view.now_s - account.reset_s < self.reset_s:
            return account
        found = entrants(view, self.aware)
        basis = _basis(found)
        if account.jobs and basis == account.basis:
            return account
        allocation = self._allocation(found, account)
        shares = {
            job: {
                kind: share if share > _NEGLIGIBLE else 0.0
                for kind, share, rate in zip(found.types, row, rates, strict=True)
                if rate > 0.0
            }
            for job, row, rates in zip(found.jobs, allocation.x.tolist(), found.problem.rates, strict=True)
        }
        types = _from_fast_to_slow(found)
        return account.reset(shares, view, self.round_s / 2.0, types, basis, allocation.notes)

    def _allocation(self, found: Entrants, account: Account) -> Allocation:
        problem = found.problem
        if not problem.allowed.any():
            return Allocation(np.zeros_like(problem.rates), account.notes)
        return OBJECTIVES[self.objective].allocate(Case(problem, found.jobs, found.types, account.notes))

    def _types(self, view: View, account: Account) -> tuple[str, ...]:
        """The order in which types are filled: from fast to slow, or any where speed does not count.

        The released code names its three types in that order, and shuffles them for policies that know no speeds.
        """
        if self.aware:
            return account.types
        return tuple(random.Random(view.seed).sample(account.types, len(account.types)))

    def _explain(self, view: View, account: Account) -> dict[str, str]:
        """Why jobs without any share wait."""
        due_s = max(account.reset_s + self.reset_s - view.now_s, 0.0)
        reasons = {}
        for job in view.jobs.values():
            entry = account.jobs.get(job.id)
            if entry is None:
                reasons[job.id] = (
                    f"it has no share of the time yet; shares are computed again in {duration(due_s)}"
                )
            elif not entry.share:
                reasons[job.id] = f"no accelerator type here can run its {job.request.workers} workers"
            elif sum(entry.share.values()) <= 0.0:
                reasons[job.id] = f"its share of the time is nothing under {self.objective}"
        return reasons


@dataclass(frozen=True)
class GavelOracle(Gavel):
    """The same with the true throughputs, as in the published simulations."""

    name: ClassVar[str] = "gavel-oracle"
    title: ClassVar[str] = "Gavel (oracle)"
    needs: ClassVar[Needs] = Needs(
        info=Info.SPEED | Info.REMAINING | Info.DEADLINE | Info.PRICES,
        period_s=360.0,
        on_arrival=False,
        on_finish=False,
        oracle=True,
    )


def _from_fast_to_slow(found: Entrants) -> tuple[str, ...]:
    """Types by the mean over jobs of the speed there, relative to each job's best."""
    speed = (found.problem.rates / found.problem.best()[:, None]).sum(axis=0).tolist()
    return tuple(kind for _, kind in sorted(zip([-s for s in speed], found.types, strict=True)))


def _basis(found: Entrants) -> int:
    """A number that changes with the jobs, the types, a throughput or a price; not with the work left."""
    problem = found.problem
    text = "\n".join((*found.jobs, "", *found.types)).encode()
    arrays = (problem.rates, problem.capacity, problem.width, problem.weight, problem.price)
    for array in arrays:
        text += np.ascontiguousarray(np.round(array, 9)).tobytes()
    return zlib.crc32(text)
