"""Defines the figures that an evaluation keeps of one run, and the measures it compares.

JCT alone would reward a policy that starves long jobs, so the tail, the makespan, finish-time fairness ρ and restarts
stand beside it.  A run that left jobs unfinished has none of the figures that only finished jobs define.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastane.sim.metrics import rho, summarise
from elastane.sim.result import RunResult

FAIR_RHO = 2.0
"""A job that takes less than twice its time alone on an equal share counts as treated fairly."""


@dataclass(frozen=True)
class Measure:
    """One figure that is compared: ``relative`` in per cent, else in its own unit.  ``seconds``: a duration."""

    name: str
    title: str
    lower_is_better: bool = True
    relative: bool = True
    seconds: bool = False


MEASURES = (
    Measure("mean_jct_s", "mean JCT", seconds=True),
    Measure("median_jct_s", "p50 JCT", seconds=True),
    Measure("p99_jct_s", "p99 JCT", seconds=True),
    Measure("makespan_s", "makespan", seconds=True),
    Measure("p99_rho", "p99 ρ"),
    Measure("max_rho", "worst ρ"),
    Measure("fair_share", "jobs with ρ < 2", lower_is_better=False, relative=False),
    Measure("restarts_per_job", "restarts per job", relative=False),
)
MEAN_JCT = MEASURES[0]


@dataclass(frozen=True)
class Outcome:
    """The figures of one run that are compared, by name of the measure."""

    oracle: bool
    jobs: int
    unfinished: int
    figures: Mapping[str, float | None]
    notes: tuple[str, ...]


def outcome_of(result: RunResult) -> Outcome:
    """Extracts the compared figures from the result of one run."""
    summary = summarise(result)
    ratios = [value for job in result.jobs if (value := rho(job)) is not None]
    figures = {measure.name: getattr(summary, measure.name, None) for measure in MEASURES}
    figures["fair_share"] = sum(value < FAIR_RHO for value in ratios) / len(ratios) if ratios else None
    if summary.unfinished:
        figures = dict.fromkeys(figures)
    return Outcome(result.oracle, summary.jobs, summary.unfinished, figures, summary.notes)
