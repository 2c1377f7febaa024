"""The waiting bound: nobody takes longer than X times what an equal share would have taken, plus one restart.

A job's *fair-share time* T is the time it would need with capacity ÷ J(t) GPUs at every moment, J(t) being the
unfinished jobs of that moment; below the least it can run on, it is taken to share that in time.  The work such a share
would have done is kept for every job in the policy's memory.  A job that an equal share would have finished by now, or
that is about to miss X·T, is *owed*: it gets the GPUs that bring it home in time before anything else is divided.

A job of which nobody knows how much is left cannot be promised an end; it is owed GPUs while it has had less than a
part 1/X of what an equal share would have given it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.elastane.outlook import Outlook
from elastane.policies.view import View

_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Account:
    """Of one job: its whole work, what an equal share would have done and given, and T once that is over."""

    total: float | None = None
    fair_work: float = 0.0
    fair_gpu_s: float = 0.0
    over_s: float | None = None


@dataclass(frozen=True)
class Accounts:
    """Accounts of all jobs at one moment."""

    at_s: float
    jobs: Mapping[str, Account]

    @classmethod
    def of(cls, memory: Any, now_s: float) -> Accounts:
        """From what the last plan left in the policy's memory."""
        if not isinstance(memory, dict):
            return cls(now_s, {})
        return cls(float(memory["at_s"]), {job: Account(*values) for job, values in memory["fair"].items()})

    def memory(self) -> dict[str, Any]:
        """As JSON values."""
        kept = {job: [a.total, a.fair_work, a.fair_gpu_s, a.over_s] for job, a in self.jobs.items()}
        return {"at_s": self.at_s, "fair": kept}

    def carried_on(self, view: View, outlook: Outlook) -> Accounts:
        """The accounts at this view; jobs that are gone are forgotten, new ones begin at nothing."""
        passed_s = max(view.now_s - self.at_s, 0.0)
        share = outlook.total_gpus / max(len(self.jobs), 1)
        speedups = outlook.speedups_at(share)
        found = {}
        for row, job in enumerate(outlook.jobs):
            old = self.jobs.get(job.id, Account())
            began = job.id in self.jobs
            left = float(outlook.left_work[row])
            total = left if old.total is None and not np.isnan(left) else old.total
            given_s = old.fair_gpu_s + (share * passed_s if began else 0.0)
            rate = float(speedups[row] * outlook.alone[row])
            if not began or np.isnan(rate):
                found[job.id] = Account(total, 0.0, given_s)
                continue
            # What a share would have done before anything was measured is made up for at today's speed.
            before = 0.0 if old.fair_work else rate * old.fair_gpu_s / max(share, _TINY)
            fair, over_s = old.fair_work + before + rate * passed_s, old.over_s
            if over_s is None and total is not None and fair >= total:
                over_s = max(view.now_s - job.submit_s - (fair - total) / max(rate, _TINY), 0.0)
            found[job.id] = Account(total, fair, given_s, over_s)
        return Accounts(view.now_s, found)


@dataclass(frozen=True)
class Owed:
    """For each job the GPUs it is owed (0: none), and the seconds until its bound."""

    gpus: NDArray[np.int64]
    until_s: FloatArray


def owed(accounts: Accounts, outlook: Outlook, most: IntArray, bound: float, early_s: float) -> Owed:
    """Who is owed how much now, the most pressing first, as far as GPUs reach.

    Args:
        accounts: At this moment.
        outlook: What is known of the jobs.
        most: GPUs each may have now.
        bound: X.
        early_s: GPUs are owed this long before it would be too late: a round may have to pass.
    """
    count = len(outlook.jobs)
    gpus, until_s = np.zeros(count, dtype=np.int64), np.full(count, np.inf)
    if count == 0 or bound <= 0.0:
        return Owed(gpus, until_s)
    share = outlook.total_gpus / count
    speedups = outlook.speedups_at(share)
    for row in range(count):
        until_s[row], needed = _due(accounts, outlook, row, bound, early_s, float(speedups[row]))
        gpus[row] = min(needed, max(int(most[row]), int(outlook.least[row])))
    left = outlook.total_gpus
    for row in np.argsort(until_s, kind="stable"):
        given = min(int(gpus[row]), left)
        gpus[row] = given if given >= outlook.least[row] else 0
        left -= int(gpus[row])
    return Owed(gpus, until_s)


def _due(
    accounts: Accounts, outlook: Outlook, row: int, bound: float, early_s: float, fair_speedup: float
) -> tuple[float, int]:
    """Seconds to its bound, and the GPUs a job is owed now."""
    job, now_s = outlook.jobs[row], accounts.at_s
    account, least = accounts.jobs[job.id], int(outlook.least[row])
    left_s = float(outlook.left_s[row])
    if account.total is None or np.isnan(left_s):
        behind_gpu_s = account.fair_gpu_s / bound - job.ledger.service_at(now_s)
        return (0.0, least) if behind_gpu_s > least * early_s else (np.inf, 0)
    age_s, fair_s = now_s - job.submit_s, account.over_s
    if fair_s is None:
        missing = max(account.total - account.fair_work, 0.0)
        fair_s = age_s + missing / max(fair_speedup * float(outlook.alone[row]), _TINY)
    until_s = bound * fair_s - age_s
    within_s = until_s - job.restart_s - early_s
    if account.over_s is None and within_s >= left_s / max(fair_speedup, _TINY):
        return until_s, 0
    if within_s <= 0.0:  # too late for the bound; an equal share it gets all the same
        return until_s, max(outlook.total_gpus // len(outlook.jobs), least)
    curve = outlook.curves[row]
    wanted = min(left_s / within_s, float(curve.max()) * (1.0 - 1e-9))
    return until_s, max(int(outlook.sizes[int(np.argmax(curve >= wanted))]), least)
