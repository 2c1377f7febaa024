"""Guarantees the waiting bound: no job takes longer than X times its fair-share time, plus one restart.

A job's *fair-share time* T is the time it would need, its start included, with capacity ÷ J(t) GPUs at every moment,
J(t) being the unfinished jobs of that moment; below the least it can run on, it is taken to share that in time.  The
work such a share would have done is kept for every job in the policy's memory.  A job that would miss X·T with half an
equal share from now on is *owed* GPUs: it is guaranteed as many as finish it in time, before anything else is divided.
So is one that an equal share would have finished by now, once all guarantees until its bound fill half of the GPU time.

An owner's deadline, until it has passed, takes the place of X·T where it comes sooner.

A job of unknown remaining work cannot be promised an end; it is owed GPUs while it has had less than a part 1/X of what
an equal share would have given it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.elastane.job_estimates import JobEstimates
from elastane.policies.view import View

_TINY = 1e-12
_PART = 0.5
"""Fraction of an equal share.  A job that meets its bound with this much needs no guarantee; at this fraction all
guarantees fit together."""
_EARLY_S = 2.0
"""Seconds by which a guarantee takes effect before it would be too late."""


@dataclass(frozen=True, slots=True)
class Account:
    """One job's fair-share account: whole work, work and GPU seconds an equal share would have given, and its T.

    ``over_s`` is the fair-share time T, once an equal share would have finished the job.
    """

    total: float | None = None
    fair_work: float = 0.0
    fair_gpu_s: float = 0.0
    over_s: float | None = None
    start_s: float = 0.0
    """Seconds left of the start that an equal share would have had to make, too."""
    owed: bool = False
    """Set once the job has been guaranteed GPUs.  It keeps the guarantee until it ends (or until its deadline has
    passed), so that it is not started and stopped in turn."""

    def values(self) -> list[float | bool | None]:
        """The fields in order, as JSON values."""
        return [self.total, self.fair_work, self.fair_gpu_s, self.over_s, self.start_s, self.owed]

    def after(
        self, passed_s: float, share: float, part: float, rate: float, age_s: float, left: float | None
    ) -> Account:
        """Advances the account by ``passed_s`` at an equal share.

        ``share`` is that share in GPUs, ``part`` its fraction of the job's least size (1 at most), ``rate`` the work
        per second with it (NaN: unknown), ``left`` the remaining work.
        """
        starting_s = min(self.start_s / max(part, _TINY), passed_s)
        start_s, given_s = self.start_s - starting_s * part, self.fair_gpu_s + share * passed_s
        total = left if self.total is None else self.total
        if np.isnan(rate):
            return Account(total, 0.0, given_s, None, start_s, self.owed)
        fair, over_s = self.fair_work + rate * (passed_s - starting_s), self.over_s
        if over_s is None and total is not None and fair >= total:
            over_s = max(age_s - (fair - total) / max(rate, _TINY), 0.0)
        return Account(total, fair, given_s, over_s, start_s, self.owed)


@dataclass(frozen=True)
class Accounts:
    """The fair-share accounts of all unfinished jobs at one moment."""

    at_s: float
    jobs: Mapping[str, Account]

    @classmethod
    def of(cls, memory: Any, now_s: float) -> Accounts:
        """Reads the accounts back from the policy's memory; starts empty without one."""
        if not isinstance(memory, dict):
            return cls(now_s, {})
        return cls(float(memory["at_s"]), {job: Account(*values) for job, values in memory["fair"].items()})

    def memory(self) -> dict[str, Any]:
        """Returns the state to keep in the plan's memory, as JSON values."""
        kept = {job: account.values() for job, account in self.jobs.items()}
        return {"at_s": self.at_s, "fair": kept}

    def carried_on(self, view: View, outlook: JobEstimates) -> Accounts:
        """Returns the accounts at this view; jobs that are gone are dropped, new ones begin at 0."""
        passed_s = max(view.now_s - self.at_s, 0.0)
        share = outlook.total_gpus / max(len(self.jobs), 1)
        speedups = outlook.speedups_at(share)
        part = np.minimum(1.0, share / outlook.least)
        found = {}
        for row, job in enumerate(outlook.jobs):
            old = self.jobs.get(job.id)
            left = float(outlook.left_work[row])
            known = None if np.isnan(left) else left
            if old is None:
                found[job.id] = Account(known, start_s=job.restart_s)
                continue
            rate = float(speedups[row] * outlook.alone[row])
            found[job.id] = old.after(passed_s, share, float(part[row]), rate, view.now_s - job.submit_s, known)
        return Accounts(view.now_s, found)

    def owing(self, due: Guarantees, outlook: JobEstimates) -> Accounts:
        """Returns the accounts with jobs marked that are owed GPUs, where their remaining time is known."""
        names = [outlook.jobs[row].id for row in np.flatnonzero(due.gpus) if not np.isnan(outlook.left_s[row])]
        return replace(
            self, jobs={**self.jobs, **{name: replace(self.jobs[name], owed=True) for name in names}}
        )


@dataclass(frozen=True)
class Guarantees:
    """Guaranteed GPUs per job (0: none), and the seconds until the next guarantee takes effect."""

    gpus: IntArray
    next_s: float = np.inf


def owed(accounts: Accounts, outlook: JobEstimates, most: IntArray, bound: float) -> Guarantees:
    """Computes the guarantees in force now, the earliest bound first, as far as GPUs reach.

    Args:
        accounts: The accounts at this moment.
        outlook: The job estimates.
        most: GPUs each may have now.
        bound: X.
    """
    count = len(outlook.jobs)
    if count == 0 or bound <= 0.0 or outlook.total_gpus == 0:
        return Guarantees(np.zeros(count, dtype=np.int64))
    share = outlook.total_gpus / count
    speedups, slow = outlook.speedups_at(share), outlook.speedups_at(share * _PART)
    dues = [
        _due(accounts, outlook, row, bound, (float(speedups[row]), float(slow[row]))) for row in range(count)
    ]
    until_s = np.array([due.until_s for due in dues])
    now = np.array([due.slack_s <= _EARLY_S for due in dues]) | _pressed(dues, until_s, outlook.total_gpus)
    next_s = min((due.slack_s for due, is_now in zip(dues, now, strict=True) if not is_now), default=np.inf)
    most = np.maximum(most, outlook.least)
    gpus = np.where(now, np.minimum([due.gpus for due in dues], most), 0).astype(np.int64)
    left = outlook.total_gpus
    for row in np.argsort(until_s, kind="stable"):
        given = min(int(gpus[row]), left)
        gpus[row] = given if given >= outlook.least[row] else 0
        left -= int(gpus[row])
    return Guarantees(gpus, max(next_s, _EARLY_S))


def _pressed(dues: Sequence[_Due], until_s: FloatArray, total: int) -> NDArray[np.bool_]:
    """Masks jobs whose guarantee cannot wait for the last moment, because too many others then need the same GPUs.

    All guaranteed GPU time until some moment must fit into a part of the GPU time until then.  Where it does not, the
    guarantees of those jobs take effect now whose fair-share time is over.
    """
    order = np.argsort(until_s, kind="stable")
    needed = np.cumsum([dues[row].gpu_s for row in order])
    full = np.flatnonzero(needed > _PART * total * np.maximum(until_s[order], 0.0))
    pressed = np.zeros(len(dues), dtype=bool)
    if full.size:
        pressed[order[: full[-1] + 1]] = True
    out: NDArray[np.bool_] = pressed & np.array([due.over for due in dues])
    return out


@dataclass(frozen=True, slots=True)
class _Due:
    """One job's claim: seconds to its bound, GPUs that finish it by then, and seconds until it must get them."""

    until_s: float = np.inf
    gpus: int = 0
    gpu_s: float = 0.0
    slack_s: float = np.inf
    over: bool = False
    """Whether its fair-share time is over."""


def _due(accounts: Accounts, outlook: JobEstimates, row: int, bound: float, pace: tuple[float, float]) -> _Due:
    """Computes one job's claim; ``pace`` is its speed-up with an equal share, and with the fraction ``_PART`` of it."""
    job, now_s = outlook.jobs[row], accounts.at_s
    account, least = accounts.jobs[job.id], int(outlook.least[row])
    left_s = float(outlook.left_s[row])
    if account.total is None or np.isnan(left_s):
        behind_gpu_s = account.fair_gpu_s / bound - job.ledger.service_at(now_s)
        return _Due(0.0, least, slack_s=0.0) if behind_gpu_s > least * _EARLY_S else _Due()
    age_s, fair_s = now_s - job.submit_s, account.over_s
    if fair_s is None:
        missing = max(account.total - account.fair_work, 0.0)
        part = min(1.0, outlook.total_gpus / len(outlook.jobs) / least)
        fair_s = age_s + account.start_s / part + missing / max(pace[0] * float(outlook.alone[row]), _TINY)
    until_s = bound * fair_s - age_s
    if job.deadline_s is not None and job.deadline_s > now_s:
        until_s = min(until_s, job.deadline_s - now_s)
    within_s = until_s - (0.0 if job.grant else job.restart_s) - _EARLY_S
    if within_s <= 0.0:  # too late for the bound; an equal share it gets all the same
        needed = max(outlook.total_gpus // len(outlook.jobs), least)
    else:
        curve = outlook.curves[row]
        wanted = min(left_s / within_s, float(curve.max()) * (1.0 - 1e-9))
        needed = max(int(outlook.sizes[int(np.argmax(curve >= wanted))]), least)
    takes_s = left_s / max(outlook.speedup_of(row, needed), _TINY)
    stays_s = left_s / max(outlook.present_speedup(row), _TINY)
    # Where moving it would not finish it sooner, or it is in time as it is, it stays.
    if job.grant and stays_s <= max(until_s, job.restart_s + takes_s):
        needed, takes_s = job.workers, stays_s
    missed = job.deadline_s is not None and job.deadline_s <= now_s
    slack_s = 0.0 if account.owed and not missed else within_s - left_s / max(pace[1], _TINY)
    return _Due(until_s, needed, needed * takes_s, slack_s, account.over_s is not None)
