"""Prepares the data that the HTML page embeds in a script element: compact, bounded and safely escaped.

Large runs are thinned here and nowhere else; every thinning leaves a sentence that the page prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from elastane.sim.metrics import Cdf, Timeline, downsampled, jct_cdf, rho, rho_cdf, timeline
from elastane.sim.report.compare import Row
from elastane.sim.report.sweep import SweepLine
from elastane.sim.result import JobRecord, RunResult, Stretch

PALETTE = (
    "#1f5fbf", "#d97a1e", "#23926b", "#b23a82", "#7a5cc9",
    "#c0443a", "#3b9bbf", "#8c7a1f", "#5b6673", "#a0662f",
)  # fmt: skip
"""Policy colours, told apart by most colour-blind readers; they repeat after ten."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what a page embeds: curve points, jobs in the job sections, stretches per job and in all."""

    points: int = 2_000
    jobs: int = 2_000
    stretches_per_job: int = 500
    stretches: int = 200_000


def policy_styles(names: Iterable[tuple[str, bool]]) -> list[dict[str, object]]:
    """Returns name, colour and dash of each policy (dashed: an oracle), in order."""
    return [
        {"name": name, "color": PALETTE[i % len(PALETTE)], "oracle": oracle}
        for i, (name, oracle) in enumerate(names)
    ]


def page_data(compared: Sequence[Row], limits: Limits) -> tuple[dict[str, object], list[str]]:
    """Returns the data of all charts of a comparison, and sentences on what was thinned."""
    firsts = [row.first for row in compared]
    origin = min((job.submit_s for run in firsts for job in run.jobs), default=0.0)
    lines = [timeline(run) for run in firsts]
    ids, thinned = _chosen_jobs(firsts, limits)
    longest = max((len(line.times_s) for line in lines), default=0)
    if longest > limits.points:
        thinned.append(f"Curves over time are averages over {limits.points:,} equal intervals.")
    span = max((float(line.times_s[-1]) - origin for line in lines if len(line.times_s)), default=0.0)
    return {
        "policies": policy_styles((row.policy, row.first.oracle) for row in compared),
        "unit": _time_unit(span),
        "totalGpus": max(run.total_gpus for run in firsts),
        "jct": [_cdf(jct_cdf(row.runs), limits.points) for row in compared],
        "rho": [_cdf(rho_cdf(row.runs), limits.points) for row in compared],
        "timeline": [_timeline(downsampled(line, limits.points), origin) for line in lines],
        "jobs": ids,
        "runs": [_run(run, ids, origin, limits) for run in firsts],
    }, thinned


def sweep_data(lines: dict[str, tuple[SweepLine, ...]]) -> list[dict[str, object]]:
    """Returns the data of one chart per swept parameter, mean JCT in hours."""
    return [
        {
            "parameter": parameter,
            "lines": [
                {
                    "policy": line.policy,
                    "x": list(line.values),
                    "y": [each and round(each.mean / 3600, 5) for each in line.mean_jct_s],
                    "e": [each and round((each.half_width or 0) / 3600, 5) for each in line.mean_jct_s],
                    "complete": list(line.complete),
                }
                for line in each
            ],
        }
        for parameter, each in lines.items()
    ]


def _time_unit(span_s: float) -> dict[str, object]:
    name, size = ("h", 3600) if span_s >= 7200 else ("min", 60) if span_s >= 300 else ("s", 1)
    return {"name": name, "size": size}


def _cdf(cdf: Cdf, limit: int) -> dict[str, object]:
    last = len(cdf.values) - 1
    kept = np.unique(np.linspace(0, last, min(limit, last + 1)).round().astype(int))
    return {"x": _numbers(cdf.values[kept], 4), "y": _numbers(cdf.share[kept], 5)}


def _timeline(line: Timeline, origin: float) -> dict[str, object]:
    return {
        "t": _numbers(line.times_s - origin, 1),
        "gpus": _numbers(line.gpus, 2),
        "eff": _numbers(line.efficiency, 4),
        "running": _numbers(line.running, 2),
        "waiting": _numbers(line.waiting, 2),
    }


def _numbers(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], digits: int) -> list[float | None]:
    return [None if value != value else value for value in values.round(digits).tolist()]


def _chosen_jobs(runs: Sequence[RunResult], limits: Limits) -> tuple[list[str], list[str]]:
    """Selects the jobs to embed, evenly spread over the order of submission, with sentences on what was thinned."""
    known = {job.id: job.submit_s for run in runs for job in run.jobs}
    ids = sorted(known, key=lambda each: (known[each], each))
    kept = [min(len(job.stretches), limits.stretches_per_job) for run in runs for job in run.jobs]
    affordable = int(limits.stretches / (sum(kept) / max(len(ids), 1) or 1))
    count = max(1, min(limits.jobs, affordable, len(ids)))
    said = []
    if count < len(ids):
        said.append(f"The job sections show {count:,} of {len(ids):,} jobs, evenly spread by submission.")
        ids = [ids[int(i)] for i in np.linspace(0, len(ids) - 1, count).round()]
    if any(len(job.stretches) > limits.stretches_per_job for run in runs for job in run.jobs):
        said.append(f"Jobs with more than {limits.stretches_per_job} allocation changes are drawn coarser.")
    return ids, said


def _run(run: RunResult, ids: Sequence[str], origin: float, limits: Limits) -> list[object]:
    by_id = {job.id: job for job in run.jobs}
    return [_job(by_id[each], origin, limits) if each in by_id else None for each in ids]


def _job(job: JobRecord, origin: float, limits: Limits) -> dict[str, object]:
    fairness = rho(job)
    return {
        "app": job.app,
        "tenant": job.tenant,
        "submit": round(job.submit_s - origin, 1),
        "finish": None if job.finish_s is None else round(job.finish_s - origin, 1),
        "requested": job.requested_gpus,
        "rho": None if fairness is None else round(fairness, 3),
        "restarts": job.restarts,
        "gpuHours": round(job.service_gpu_s / 3600, 3),
        # start, end, GPUs, batch, efficiency: flat, because a page may hold hundreds of thousands of them.
        "s": [value for s in _thinned(job.stretches, limits.stretches_per_job) for value in _flat(s, origin)],
    }


def _flat(s: Stretch, origin: float) -> tuple[float, ...]:
    return round(s.start_s - origin, 1), round(s.end_s - origin, 1), s.gpus, s.batch, round(s.efficiency, 4)


def _thinned(stretches: tuple[Stretch, ...], limit: int) -> Sequence[Stretch]:
    """Keeps at most ``limit`` stretches, every n-th, each drawn until the next one kept."""
    step = -(-len(stretches) // limit)
    if step <= 1:
        return stretches
    kept = stretches[::step]
    ends = [*(each.start_s for each in kept[1:]), stretches[-1].end_s]
    return [
        Stretch(s.start_s, end, s.gpus, s.nodes, s.batch, s.efficiency)
        for s, end in zip(kept, ends, strict=True)
    ]
