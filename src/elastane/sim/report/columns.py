"""Defines the columns that a comparison shows, shared by the terminal table and the HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from elastane.sim.report.compare import Figure, Row


class Better(Enum):
    """Which end of a column is the good one; NEITHER where more is not better in itself."""

    LOW = "low"
    HIGH = "high"
    NEITHER = "neither"


class Kind(Enum):
    """The unit in which a column's numbers are written."""

    DURATION = "duration"
    RATIO = "ratio"
    PERCENT = "percent"
    AMOUNT = "amount"
    MILLISECONDS = "ms"


@dataclass(frozen=True, slots=True)
class Unit:
    """A divisor with its symbol and the decimals worth showing."""

    symbol: str
    size: float
    decimals: int


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of the comparison.  ``of_finished``: no contest once jobs are left unfinished."""

    name: str
    title: str
    kind: Kind
    better: Better
    of_finished: bool = False


COLUMNS = (
    Column("mean_jct_s", "mean JCT", Kind.DURATION, Better.LOW, of_finished=True),
    Column("median_jct_s", "median JCT", Kind.DURATION, Better.LOW, of_finished=True),
    Column("p99_jct_s", "p99 JCT", Kind.DURATION, Better.LOW, of_finished=True),
    Column("makespan_s", "makespan", Kind.DURATION, Better.LOW, of_finished=True),
    Column("p99_rho", "p99 ρ", Kind.RATIO, Better.LOW, of_finished=True),
    Column("mean_queue_s", "mean wait", Kind.DURATION, Better.LOW, of_finished=True),
    Column("utilisation", "GPUs in use", Kind.PERCENT, Better.NEITHER),
    Column("mean_efficiency", "stat. eff.", Kind.PERCENT, Better.HIGH),
    Column("restarts_per_job", "restarts per job", Kind.RATIO, Better.LOW),
    Column("gpu_weighted_jct_s", "GPU-weighted JCT", Kind.DURATION, Better.LOW, of_finished=True),
    Column("restart_gpu_hours", "lost to restarts", Kind.AMOUNT, Better.LOW, of_finished=True),
    Column("gpu_hours", "GPU time", Kind.AMOUNT, Better.LOW, of_finished=True),
    Column("mean_rho", "mean ρ", Kind.RATIO, Better.LOW, of_finished=True),
    Column("decision_ms_p50", "decision p50", Kind.MILLISECONDS, Better.NEITHER),
)
"""The columns by importance: where there is no room for all, the last ones are dropped."""

_FIXED = {
    Kind.RATIO: Unit("", 1.0, 2),
    Kind.PERCENT: Unit("%", 0.01, 1),
    Kind.AMOUNT: Unit("GPU·h", 1.0, 0),
    Kind.MILLISECONDS: Unit("ms", 1.0, 1),
}
_DURATIONS = ((7200.0, Unit("h", 3600.0, 2)), (300.0, Unit("min", 60.0, 1)), (0.0, Unit("s", 1.0, 1)))


def unit(column: Column, rows: Sequence[Row]) -> Unit:
    """Returns one unit for the whole column, chosen by its largest value, so that numbers compare at a glance."""
    largest = max((value.mean for row in rows if (value := row.figures[column.name])), default=0.0)
    if column.kind is Kind.DURATION:
        return duration_unit(largest)
    if column.kind is Kind.AMOUNT and largest < 100:
        return Unit("GPU·h", 1.0, 2)
    return _FIXED[column.kind]


def duration_unit(largest_s: float) -> Unit:
    """Returns hours, minutes or seconds, whichever suits the longest duration."""
    return next(each for least, each in _DURATIONS if largest_s >= least)


def written(value: Figure | None, as_unit: Unit) -> tuple[str, str]:
    """Formats a number without its unit, and ± its half-width when there are several seeds (else empty)."""
    if value is None:
        return "–", ""
    mean = f"{value.mean / as_unit.size:,.{as_unit.decimals}f}"
    if value.half_width is None:
        return mean, ""
    return mean, f"± {value.half_width / as_unit.size:,.{as_unit.decimals}f}"


def best(column: Column, rows: Sequence[Row]) -> frozenset[str]:
    """Returns the policies that lead a column.

    A policy that reads the truth does not compete with those that have to estimate it (unless all do), and
    one that left jobs unfinished does not compete in what only finished jobs define.
    """
    honest = [row for row in rows if not row.first.oracle] or list(rows)
    if column.better is Better.NEITHER or len(honest) < 2:
        return frozenset()
    running = [row for row in honest if row.complete or not column.of_finished]
    means = {row.policy: value.mean for row in running if (value := row.figures[column.name])}
    if not means or (len(means) > 1 and len(set(means.values())) == 1):
        return frozenset()  # nothing known, or a tie of all: none leads
    target = min(means.values()) if column.better is Better.LOW else max(means.values())
    return frozenset(policy for policy, mean in means.items() if mean == target)
