"""Converts specs and results to JSON values and back, for the cache and for worker processes."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from elastane.models.history.files import from_plain, to_plain
from elastane.sim.result import JobRecord, RunResult, Stretch
from elastane.sim.spec import RunSpec
from elastane.sim.workloads.trace import Omission
from elastane.simcore.physics import Physics

_NESTED = ("stretches", "experience")


def spec_to_plain(spec: RunSpec) -> dict[str, Any]:
    """Converts a spec to JSON values: all fields, nested ones as dictionaries."""
    return asdict(spec)


def spec_from_plain(plain: dict[str, Any]) -> RunSpec:
    """Reads a spec back from JSON values."""
    return RunSpec(**{**plain, "physics": Physics(**plain["physics"])})


def result_to_plain(result: RunResult) -> dict[str, Any]:
    """Converts a result to JSON values; stretches become lists, since there are many."""
    plain = {field.name: getattr(result, field.name) for field in fields(result) if field.name != "jobs"}
    plain["jobs"] = [_job(job) for job in result.jobs]
    plain["left_out"] = [number for number, note in enumerate(result.notes) if isinstance(note, Omission)]
    return plain


def _job(job: JobRecord) -> dict[str, Any]:
    row = {field.name: getattr(job, field.name) for field in fields(job) if field.name not in _NESTED}
    row["experience"] = to_plain(job.experience) if job.experience else None
    names = [field.name for field in fields(Stretch)]
    row["stretches"] = [[getattr(stretch, name) for name in names] for stretch in job.stretches]
    return row


def result_from_plain(plain: dict[str, Any]) -> RunResult:
    """Reads a result back from JSON values; raises ValueError, KeyError or TypeError for anything else."""
    rows = [dict(row) for row in plain["jobs"]]
    jobs = tuple(_record(row) for row in rows)
    rest = {name: value for name, value in plain.items() if name != "jobs"}
    left_out = set(rest.pop("left_out", ()))
    notes = (Omission(note) if number in left_out else note for number, note in enumerate(rest["notes"]))
    rest["decision_ms"], rest["notes"] = tuple(rest["decision_ms"]), tuple(notes)
    return RunResult(**rest, jobs=jobs)


def _record(row: dict[str, Any]) -> JobRecord:
    stretches = tuple(Stretch(*values) for values in row.pop("stretches"))
    past = row.pop("experience")
    return JobRecord(**row, stretches=stretches, experience=from_plain(past) if past else None)
