"""The logs of a job: which there are, and where; no link leads out of the job's own folder.

A worker's name is never used twice in a job, so its log is found by its name alone.  The plan log of the job tells
which workers belonged to which attempt, and who led it first.
"""

from __future__ import annotations

import re
from pathlib import Path

from elastane.engines.local.paths import PLANS, Layout
from elastane.engines.local.untrusted_files import read_bytes, sizes_below
from elastane.service.messages import LogFile
from elastane.service.protocol import NotFound
from elastane.train.coordinator.membership_plan import Kind
from elastane.train.coordinator.plan_entries import JobEnded, PlanMade, WorkerSpawned, entries_in

_MOST_HISTORY = 1 << 22
"""Bytes of the plan log that are looked at: many thousands of changes."""
_WORKER = re.compile(r"w[1-9][0-9]{0,6}")


def log_files(layout: Layout, job: str) -> list[LogFile]:
    """Logs of all workers, oldest first."""
    attempts, leaders = _history(read_bytes(layout.records(job), PLANS, most=_MOST_HISTORY))
    found = []
    for file, size in sizes_below(layout.job(job), layout.run(job).name, "logs").items():
        name = file.removesuffix(".log")
        if file.endswith(".log") and _WORKER.fullmatch(name):
            attempt = attempts.get(name, 1)
            found.append(LogFile(attempt=attempt, worker=name, bytes=size, leader=name in leaders))
    return sorted(found, key=lambda file: int(file.worker[1:]))


def log_path(layout: Layout, job: str, attempt: int, worker: str) -> Path:
    """Where a worker's log lies."""
    known = {(file.attempt, file.worker) for file in log_files(layout, job)}
    if (attempt, worker) not in known:
        raise NotFound(f"there is no log of worker {worker} in attempt {attempt}")
    return layout.run(job) / "logs" / f"{worker}.log"


def _history(plans: bytes) -> tuple[dict[str, int], set[str]]:
    """The attempt of each worker, and the first leader of each attempt; what a job made up is passed over."""
    attempts: dict[str, int] = {}
    leaders: dict[int, str] = {}
    attempt = 1
    for entry in entries_in(plans):
        match entry:
            case WorkerSpawned(worker):
                attempts[worker] = attempt
                leaders.setdefault(attempt, worker)
            case PlanMade(plan) if plan.kind is Kind.START and plan.members:
                leaders[attempt] = plan.members[0]
            case JobEnded():
                attempt += 1
    return attempts, set(leaders.values())
