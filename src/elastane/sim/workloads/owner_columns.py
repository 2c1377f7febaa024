"""Reads what owners ask of the live system from columns of a trace: class, kind, tenant, priority, weight, deadline.

Any trace in columns with a header may have them, whatever its format; an empty cell leaves the job as its format says.
Values are held to the rules of a job spec.
"""

from __future__ import annotations

from dataclasses import replace

from elastane.jobs.kinds import JobClass, Kind
from elastane.sim.workloads.names import nearest
from elastane.sim.workloads.rows import Row
from elastane.sim.workloads.trace import TraceJob

COLUMNS = ("class", "kind", "tenant", "priority", "weight", "deadline_s")
"""``deadline_s`` counts from the job's submission."""

CLASSES = tuple(member.value for member in JobClass)
KINDS = tuple(member.value for member in Kind if member is not Kind.AUTO)
"""A simulation has no script to look at, so there is no ``auto``; an empty cell leaves the kind to the run."""

MOST_PRIORITY, MOST_WEIGHT = 1_000_000, 1e6
_LATEST_S = 100 * 366 * 86_400.0
_LONGEST_NAME = 200


def with_owner_columns(job: TraceJob, row: Row) -> TraceJob:
    """The job with what the row's columns say of it."""
    if not any(column in row.columns for column in COLUMNS):
        return job
    kind = _one_of(row, "kind", KINDS)
    return replace(
        job,
        klass=_one_of(row, "class", CLASSES) or job.klass,
        kind=Kind(kind) if kind else job.kind,
        tenant=_tenant(row) or job.tenant,
        priority=job.priority if row.optional("priority") is None else _priority(row),
        weight=job.weight if row.optional("weight") is None else _weight(row),
        deadline_s=_deadline_s(job, row),
    )


def _one_of(row: Row, column: str, known: tuple[str, ...]) -> str | None:
    text = row.optional(column)
    if text is not None and text not in known:
        raise row.bad(column, f"is no {column} of a job{nearest(text, known)}")
    return text


def _tenant(row: Row) -> str | None:
    text = row.optional("tenant")
    if text is not None and not (text.isprintable() and len(text) <= _LONGEST_NAME):
        raise row.bad("tenant", f"is not a name of at most {_LONGEST_NAME} printable characters")
    return text


def _priority(row: Row) -> int:
    priority = row.whole("priority", least=-MOST_PRIORITY)
    if priority > MOST_PRIORITY:
        raise row.bad("priority", f"is above {MOST_PRIORITY:,}")
    return priority


def _weight(row: Row) -> float:
    weight = row.number("weight")
    if not 0.0 < weight <= MOST_WEIGHT:
        raise row.bad("weight", f"is not above 0 and at most {MOST_WEIGHT:,.0f}")
    return weight


def _deadline_s(job: TraceJob, row: Row) -> float | None:
    if row.optional("deadline_s") is None:
        return job.deadline_s
    after_s = row.number("deadline_s")
    if not 0.0 < after_s <= _LATEST_S:
        raise row.bad("deadline_s", "is not above 0 and at most 100 years (seconds from the submission)")
    return job.submit_s + after_s
