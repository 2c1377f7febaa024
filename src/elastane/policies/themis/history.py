"""Remembers, from plan to plan, how many apps competed over the life of each, and how much work each began with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from elastane.policies.view import JobView, View


@dataclass(frozen=True, slots=True)
class Beginning:
    """What was seen of a job first: when, the sum of app seconds by then, and its whole work if known."""

    at_s: float
    app_s: float
    work: float | None = None


@dataclass(frozen=True)
class History:
    """App seconds of the cluster so far (the integral of the number of apps), and the beginnings of its jobs."""

    now_s: float
    apps: int
    app_s: float
    jobs: Mapping[str, Beginning]

    def contention(self, job: str) -> float:
        """Returns N_avg of a job."""
        began = self.jobs[job]
        passed_s = self.now_s - began.at_s
        return max((self.app_s - began.app_s) / passed_s, 1.0) if passed_s > 0.0 else float(max(self.apps, 1))

    def as_memory(self) -> dict[str, Any]:
        """Returns the history as JSON values."""
        jobs = {job: [began.at_s, began.app_s, began.work] for job, began in sorted(self.jobs.items())}
        return {"at_s": self.now_s, "apps": self.apps, "app_s": self.app_s, "jobs": jobs}


def history_of(view: View) -> History:
    """Returns the history up to this view."""
    memory: Any = view.memory
    known = {job: Beginning(*began) for job, began in memory["jobs"].items()} if memory else {}
    app_s = memory["app_s"] + memory["apps"] * (view.now_s - memory["at_s"]) if memory else 0.0
    new = Beginning(view.now_s, app_s)
    jobs = {job: _with_work(known.get(job, new), view.jobs[job]) for job in sorted(view.jobs)}
    return History(view.now_s, len(view.jobs), app_s, jobs)


def _with_work(began: Beginning, job: JobView) -> Beginning:
    """Returns the beginning with the most work that was ever left to do."""
    left = job.remaining
    if left is None or not math.isfinite(left.mean) or left.mean <= (began.work or 0.0):
        return began
    return replace(began, work=left.mean)


def nothing_new(view: View) -> bool:
    """Tells whether the last plan was made at this very instant for the same jobs."""
    memory: Any = view.memory
    return bool(memory) and memory["at_s"] == view.now_s and memory["jobs"].keys() == view.jobs.keys()
