"""Reports what becomes of jobs when the system is ended: who was saved, who starts over, who still runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from elastane.jobs.kinds import Kind
from elastane.service.control.active_job import LiveJob
from elastane.service.wording import counted, named


def left_behind(jobs: Iterable[LiveJob]) -> str:
    """One sentence about jobs that ran when the system was ended."""
    groups: dict[str, list[str]] = {"saved": [], "own": [], "over": [], "young": [], "stays": []}
    for job in jobs:
        groups[_fate(job)].append(job.id)
    parts = [
        _part(groups["saved"], "was saved and goes on from there", "were saved and go on from there"),
        _part(
            groups["own"], "goes on from what its script has saved", "go on from what their scripts have saved"
        ),
        _part(
            groups["over"],
            "is a command: nothing of it was saved, it starts over",
            "are commands: nothing of them was saved, they start over",
        ),
        _part(
            groups["young"], "had not begun to train and starts anew", "had not begun to train and start anew"
        ),
        _part(groups["stays"], "did not end in time", "did not end in time"),
    ]
    return "; ".join(filter(None, parts)) or "no job was running"


def _fate(job: LiveJob) -> str:
    if job.row.grant is not None:
        return "stays"
    if job.kind is Kind.COMMAND:
        return "over"
    if job.kind in (Kind.RESIZABLE, Kind.RIGID):
        return "own"
    return "saved" if job.learned.training is not None else "young"


def _part(ids: Sequence[str], one: str, several: str) -> str:
    if not ids:
        return ""
    return f"{ids[0]} {one}" if len(ids) == 1 else f"{counted(len(ids), 'job')} ({named(ids)}) {several}"
