"""Summarises the cluster demo: its jobs, and what was done to hosts and noticed of it after how long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from elastane.client import Client
from elastane.demo.cluster_play import ClusterPlay
from elastane.demo.faults import Act, Deed
from elastane.demo.stage import Cleaned
from elastane.demo.summary import Summary
from elastane.demo.tale import collect
from elastane.demo.wording import cleaned_words
from elastane.kit.durations import duration
from elastane.train.reports.wording import milliseconds

HEADINGS = ("what was done", "host", "noticed after", "trained on after", "pauses of survivors")
_UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """The figures of the whole cluster demo."""

    jobs: Summary
    deeds: tuple[Deed, ...]

    @property
    def succeeded(self) -> bool:
        """Whether all was done and noticed, every job succeeded, and nothing is left behind."""
        done = [deed.act for deed in self.deeds if deed.noticed_s is not None]
        return done == list(Act) and self.jobs.succeeded

    def cleaned(self, cleaned: Cleaned) -> ClusterSummary:
        """Returns the summary with what was cleaned up added."""
        return replace(self, jobs=replace(self.jobs, cleaned=cleaned))

    def to_json(self) -> dict[str, Any]:
        """Returns the summary as JSON values."""
        whole = self.jobs.to_json()
        del whole["killed"]
        lost = [job.steps_lost for job in self.jobs.jobs if job.steps_lost is not None]
        deeds = [deed.to_json() for deed in self.deeds]
        return {**whole, "succeeded": self.succeeded, "steps_lost": sum(lost), "deeds": deeds}


def summary_of(play: ClusterPlay, client: Client) -> ClusterSummary:
    """Collects the figures while the service can still be asked."""
    play.finish()
    return ClusterSummary(collect(play, client, {}).summary, tuple(play.deeds))


def cells(deed: Deed) -> tuple[str, ...]:
    """Formats a deed: a text for each of ``HEADINGS``."""
    pauses = ", ".join(f"{name} {milliseconds(pause_s)}" for name, pause_s in deed.pauses_s.items())
    return (deed.act.value, deed.host, _words(deed.noticed_s), _words(deed.used_s), pauses or _UNKNOWN)


def facts(summary: ClusterSummary) -> dict[str, str]:
    """Formats the figures of all jobs together, as names and values."""
    jobs = summary.jobs
    lost = [job.steps_lost for job in jobs.jobs if job.steps_lost is not None]
    return {
        "jobs": f"{sum(job.succeeded for job in jobs.jobs)} of {len(jobs.jobs)} finished",
        "steps lost": str(sum(lost)),
        "time": duration(jobs.wall_s),
        "cleaned up": cleaned_words(jobs),
    }


def _words(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else duration(seconds)
