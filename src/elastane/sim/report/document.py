"""Writes the results as one JSON document: the same bytes for the same runs, apart from timings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from elastane import __version__
from elastane.models.history.files import to_plain
from elastane.sim.metrics import FAIRNESS_DEFINITION, rho
from elastane.sim.report.compare import FIGURES, Figure, Row, rows, varying_physics
from elastane.sim.result import RunResult

_COUNTS = frozenset({"jobs", "finished", "unfinished"})


def to_json(results: Iterable[RunResult], *, per_job: bool = True) -> dict[str, object]:
    """Converts a comparison to a JSON document.

    ``policies`` maps each policy's name, as the user wrote it, to one result: figures (means over seeds, with
    ``ci95`` half-widths and ``per_seed`` when several ran), parameters, and a ``per_job`` row per job and seed.
    """
    compared = rows(results)
    runs = [run for row in compared for run in row.runs]
    workloads = list(dict.fromkeys(run.workload for run in runs))
    varying = varying_physics(runs)
    return {
        "elastane": __version__,
        "workload": workloads[0] if len(workloads) == 1 else workloads,
        "physics": {k: plain(v) for k, v in runs[0].physics.items() if k not in varying},
        "total_gpus": runs[0].total_gpus,
        "seeds": sorted({run.seed for run in runs}),
        "definitions": {"rho": FAIRNESS_DEFINITION},
        "policies": {row.policy: _policy(row, varying, per_job) for row in compared},
    }


def write_json(results: Iterable[RunResult], path: Path, *, per_job: bool = True) -> None:
    """Writes the document of a comparison to a file."""
    text = json.dumps(to_json(results, per_job=per_job), indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def without_timings(document: Mapping[str, object]) -> dict[str, object]:
    """Returns the document without measured times: what is left is the same on every machine."""
    return {name: _untimed(value) for name, value in document.items() if not _is_timing(name)}


def plain(value: object) -> object:
    """Converts any value to JSON values; infinities and unknown types become text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(str(each) for each in value)
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return str(value)


def _policy(row: Row, varying: Sequence[str], per_job: bool) -> dict[str, object]:
    first = row.first
    entry: dict[str, object] = {
        "title": first.title,
        "oracle": first.oracle,
        "parameters": plain(first.parameters),
        "seeds": [run.seed for run in row.runs],
    }
    if varying:
        entry["physics"] = {name: plain(first.physics.get(name)) for name in varying}
    entry.update({name: _number(name, row.figures[name]) for name in FIGURES})
    entry["notes"] = list(row.notes)
    if len(row.runs) > 1:
        known = {name: value for name in FIGURES if (value := row.figures[name])}
        entry["ci95"] = {name: value.half_width for name, value in known.items()}
        entry["per_seed"] = [_seed(row, index) for index in range(len(row.runs))]
    if per_job:
        entry["per_job"] = [line for run in row.runs for line in _jobs(run)]
    return entry


def _number(name: str, value: Figure | None) -> float | int | None:
    if value is None:
        return None
    # Seeds may draw different numbers of jobs; only then is a count a fraction.
    return int(value.mean) if name in _COUNTS and value.mean.is_integer() else value.mean


def _seed(row: Row, index: int) -> dict[str, object]:
    summary = row.summaries[index]
    figures = {name: getattr(summary, name) for name in FIGURES}
    return {"seed": row.runs[index].seed, **figures, "notes": list(summary.notes)}


def _jobs(run: RunResult) -> list[dict[str, object]]:
    ordered = sorted(run.jobs, key=lambda job: (job.submit_s, job.id))
    return [
        {
            "id": job.id,
            "app": job.app,
            "tenant": job.tenant,
            "seed": run.seed,
            "submit_s": job.submit_s,
            "start_s": job.start_s,
            "finish_s": job.finish_s,
            "jct_s": job.jct_s,
            "rho": rho(job),
            "restarts": job.restarts,
            "service_gpu_s": job.service_gpu_s,
            **({"experience": to_plain(job.experience)} if job.experience else {}),
        }
        for job in ordered
    ]


def _is_timing(name: str) -> bool:
    return name in {"wall_s", "cpu_s"} or name.startswith("decision_ms_")


def _untimed(value: object) -> object:
    if isinstance(value, Mapping):
        return without_timings(value)
    return [_untimed(each) for each in value] if isinstance(value, list) else value
