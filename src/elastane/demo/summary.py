"""Summarises the demo in figures: each job's completion time, pauses, lost steps and accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from elastane.demo.chaos import Blow, Target
from elastane.demo.pauses import pauses_of
from elastane.demo.stage import Cleaned
from elastane.jobs.states import State
from elastane.service.messages import JobDetail
from elastane.train.reports.events import Event, Stepped
from elastane.train.reports.history import History, redone_steps


@dataclass(frozen=True, slots=True)
class JobFigures:
    """The figures of one job; None where unknown.  ``accuracy_alone`` is that of one process without Elastane."""

    name: str
    kind: str
    state: str
    jct_s: float | None
    attempts: int
    reallocations: int
    pauses_s: tuple[float, ...]
    steps_lost: int | None
    accuracy: float | None
    accuracy_alone: float | None

    @property
    def succeeded(self) -> bool:
        """Whether the job ended successfully."""
        return self.state == State.SUCCEEDED.value

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as JSON values; pauses in milliseconds."""
        return {
            "name": self.name,
            "kind": self.kind,
            "state": self.state,
            "jct_s": _rounded(self.jct_s, 3),
            "attempts": self.attempts,
            "reallocations": self.reallocations,
            "pause_median_ms": _rounded(median(self.pauses_s) * 1e3, 3) if self.pauses_s else None,
            "pause_longest_ms": _rounded(max(self.pauses_s) * 1e3, 3) if self.pauses_s else None,
            "steps_lost": self.steps_lost,
            "accuracy": self.accuracy,
            "accuracy_alone": self.accuracy_alone,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of the whole demo: its jobs, the kills, and what was cleaned up."""

    jobs: tuple[JobFigures, ...]
    blows: tuple[Blow, ...]
    wall_s: float
    cleaned: Cleaned | None = None

    @property
    def succeeded(self) -> bool:
        """Whether every job succeeded and nothing is left behind."""
        gone = self.cleaned is None or self.cleaned.all_gone
        return bool(self.jobs) and all(job.succeeded for job in self.jobs) and gone

    @property
    def mean_jct_s(self) -> float | None:
        """The mean completion time in seconds of the jobs that have ended; None without any."""
        known = [job.jct_s for job in self.jobs if job.jct_s is not None]
        return sum(known) / len(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """Returns the summary as JSON values."""
        cleaned = self.cleaned
        return {
            "succeeded": self.succeeded,
            "wall_s": round(self.wall_s, 3),
            "mean_jct_s": _rounded(self.mean_jct_s, 3),
            "jobs": [job.to_json() for job in self.jobs],
            "killed": {
                "workers": [blow.name for blow in self.blows if blow.target is Target.WORKER],
                "agents": [blow.name for blow in self.blows if blow.target is Target.AGENT],
            },
            "cleaned": None
            if cleaned is None
            else {
                "processes_ended": cleaned.ended,
                "processes_killed": cleaned.killed,
                "processes_left": cleaned.left,
                "home_removed": cleaned.home_removed,
            },
        }


def figures_of(
    job: JobDetail, events: Sequence[Event], accuracy: float | None, accuracy_alone: float | None
) -> JobFigures:
    """Computes the figures of one job from the service's details and the job's own events."""
    changes = pauses_of(events)
    counts_steps = any(isinstance(event, Stepped) for event in events)
    return JobFigures(
        name=job.name,
        kind=job.kind,
        state=job.state,
        jct_s=None if job.ended_s is None else job.ended_s - job.submitted_s,
        attempts=job.attempt,
        # A further attempt is a change too: its job lost its slots and got others.
        reallocations=len(changes) + max(0, job.attempt - 1),
        pauses_s=tuple(change.pause_s for change in changes),
        steps_lost=redone_steps(History(tuple(events))) if counts_steps else None,
        accuracy=accuracy,
        accuracy_alone=accuracy_alone,
    )


def summarise(
    details: Mapping[str, JobDetail],
    events: Mapping[str, Sequence[Event]],
    accuracies: Mapping[str, float | None],
    alone: Mapping[str, float | None],
    blows: Sequence[Blow],
    wall_s: float,
) -> Summary:
    """Computes the summary; all mappings are by job name, ``details`` in the order of arrival."""
    figures = [
        figures_of(job, events.get(name, ()), accuracies.get(name), alone.get(name))
        for name, job in details.items()
    ]
    return Summary(tuple(figures), tuple(blows), wall_s)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
