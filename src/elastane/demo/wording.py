"""Formats the figures of a demo for people, the same on the terminal and on the page."""

from __future__ import annotations

from statistics import median

from elastane.demo.summary import JobFigures, Summary
from elastane.kit.durations import duration
from elastane.train.reports.wording import milliseconds

HEADINGS = (
    "job",
    "kind",
    "ended",
    "time",
    "changes",
    "median pause",
    "longest pause",
    "steps lost",
    "accuracy",
    "alone",
)
_UNKNOWN = "–"


def cells(job: JobFigures) -> tuple[str, ...]:
    """Formats one job: a text for each of ``HEADINGS``."""
    return (
        job.name,
        job.kind,
        job.state,
        _UNKNOWN if job.jct_s is None else duration(job.jct_s),
        str(job.reallocations),
        milliseconds(median(job.pauses_s)) if job.pauses_s else _UNKNOWN,
        milliseconds(max(job.pauses_s)) if job.pauses_s else _UNKNOWN,
        _UNKNOWN if job.steps_lost is None else str(job.steps_lost),
        share(job.accuracy),
        share(job.accuracy_alone),
    )


def facts(summary: Summary) -> dict[str, str]:
    """Formats the figures of all jobs together, as names and values."""
    mean = summary.mean_jct_s
    pauses = [pause for job in summary.jobs for pause in job.pauses_s]
    return {
        "jobs": f"{sum(job.succeeded for job in summary.jobs)} of {len(summary.jobs)} succeeded",
        "time": duration(summary.wall_s),
        "mean completion time": _UNKNOWN if mean is None else duration(mean),
        "reallocations": str(sum(job.reallocations for job in summary.jobs)),
        "median pause": milliseconds(median(pauses)) if pauses else _UNKNOWN,
        "killed": ", ".join(f"{blow.target.value} {blow.name}" for blow in summary.blows) or "nothing",
        "cleaned up": cleaned_words(summary),
    }


def cleaned_words(summary: Summary) -> str:
    """Says how many processes were cleaned up, and whether anything is left."""
    cleaned = summary.cleaned
    if cleaned is None:
        return _UNKNOWN
    forced = f", {cleaned.killed} killed" if cleaned.killed else ""
    left = "nothing is left" if cleaned.all_gone else f"{cleaned.left} processes are left"
    return f"{cleaned.ended} processes ended{forced}; {left}"


def share(value: float | None) -> str:
    """Formats an accuracy between 0 and 1 as a percentage; a dash if unknown."""
    return _UNKNOWN if value is None else f"{value:.1%}".replace("%", " %")
