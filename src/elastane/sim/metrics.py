"""Computes figures and curves of one run: completion times, fairness, utilisation, efficiency, restarts, latency.

Everything is computed from the records alone, in columns, so that a run of 10,000 jobs with a million
stretches takes seconds.  Jobs are put in a fixed order first: the order of records never changes a digit.
Percentiles interpolate linearly between order statistics.  Comparing runs is the report's business.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from elastane.sim.result import JobRecord, RunResult, Stretch

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

FAIRNESS_DEFINITION = (
    "JCT ÷ the job's time alone on an equal share of the cluster "
    "(total GPUs ÷ jobs active on average during its life)"
)
"""What ρ means in every figure here; other papers divide by something else, so reports print this."""


@dataclass(frozen=True)
class Summary:
    """One run in numbers.  None stands where a figure is not defined (no job finished, nothing was decided).

    JCT and ρ figures are over finished jobs; ``unfinished`` and ``notes`` say when that is not all of them,
    and ``mean_jct_bound_s`` is then the mean over *all* jobs with the unfinished counted up to the run's end.
    Queueing counts all time without GPUs, not only the time before the first start.
    """

    jobs: int
    finished: int
    unfinished: int
    mean_jct_s: float | None
    median_jct_s: float | None
    p90_jct_s: float | None
    p99_jct_s: float | None
    mean_jct_bound_s: float | None
    gpu_weighted_jct_s: float | None
    makespan_s: float | None
    mean_queue_s: float | None
    p99_queue_s: float | None
    mean_rho: float | None
    p99_rho: float | None
    max_rho: float | None
    unfair_share: float | None
    utilisation: float | None
    mean_efficiency: float | None
    restarts_per_job: float | None
    restart_gpu_hours: float
    gpu_hours: float
    decision_ms_p50: float | None
    decision_ms_p99: float | None
    decision_ms_max: float | None
    wall_s: float
    cpu_s: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Cdf:
    """An empirical distribution: ``share[i]`` of the jobs have a value of at most ``values[i]``."""

    values: Floats
    share: Floats


@dataclass(frozen=True, eq=False)
class Timeline:
    """The cluster over time, as steps: entry i holds from ``times_s[i]`` to ``times_s[i + 1]``.

    ``efficiency`` is weighted by GPUs and NaN while none is allocated.
    """

    times_s: Floats
    gpus: Floats
    efficiency: Floats
    running: Floats
    waiting: Floats


@dataclass(frozen=True, eq=False)
class _Columns:
    """The records as arrays: jobs in submission order, stretches with GPUs only, ``owner`` pointing to jobs."""

    submit: Floats
    start: Floats
    finish: Floats
    service: Floats
    restart: Floats
    restarts: Floats
    isolated: Floats
    recorded: NDArray[np.bool_]
    owner: Ints
    since: Floats
    until: Floats
    gpus: Floats
    efficiency: Floats
    end_s: float

    @property
    def done(self) -> NDArray[np.bool_]:
        return np.isfinite(self.finish)

    @property
    def gone(self) -> Floats:
        """The time each job left: its finish, or the end of the run."""
        return np.where(self.done, self.finish, self.end_s)

    @property
    def jct(self) -> Floats:
        return (self.finish - self.submit)[self.done]

    @property
    def rho(self) -> Floats:
        """ρ of the finished jobs whose time alone is known."""
        alone = self.isolated[self.done]
        known = np.isfinite(alone) & (alone > 0)
        return self.jct[known] / alone[known]

    @property
    def waited(self) -> Floats:
        """Time without GPUs per job; before the first start only, where a job's stretches were not kept."""
        held = np.bincount(self.owner, self.until - self.since, len(self.submit))
        begun = np.where(np.isfinite(self.start), self.start, self.gone)
        waited = np.where(self.recorded, self.gone - self.submit - held, begun - self.submit)
        return np.maximum(waited, 0.0)  # rounding, never more


def summarise(result: RunResult) -> Summary:
    """Computes all figures of one run."""
    cols = _columns(result)
    jct, rho, waited, latency = cols.jct, cols.rho, cols.waited, np.asarray(result.decision_ms, float)
    jobs, service = len(cols.submit), float(cols.service.sum())
    makespan = cols.end_s - float(cols.submit.min()) if jobs else None
    return Summary(
        jobs=jobs,
        finished=len(jct),
        unfinished=jobs - len(jct),
        mean_jct_s=_mean(jct),
        median_jct_s=_percentile(jct, 50),
        p90_jct_s=_percentile(jct, 90),
        p99_jct_s=_percentile(jct, 99),
        mean_jct_bound_s=_mean(cols.gone - cols.submit),
        gpu_weighted_jct_s=_mean(jct, cols.service[cols.done]),
        makespan_s=makespan,
        mean_queue_s=_mean(waited),
        p99_queue_s=_percentile(waited, 99),
        mean_rho=_mean(rho),
        p99_rho=_percentile(rho, 99),
        max_rho=_percentile(rho, 100),
        unfair_share=_mean((rho > 1).astype(float)),
        utilisation=service / (result.total_gpus * makespan) if makespan and result.total_gpus else None,
        mean_efficiency=_mean(cols.efficiency, cols.gpus * (cols.until - cols.since)),
        restarts_per_job=_mean(cols.restarts),
        restart_gpu_hours=float(cols.restart.sum()) / 3600,
        gpu_hours=service / 3600,
        decision_ms_p50=_percentile(latency, 50),
        decision_ms_p99=_percentile(latency, 99),
        decision_ms_max=_percentile(latency, 100),
        wall_s=result.wall_s,
        cpu_s=result.cpu_s,
        notes=(*result.notes, *_caveats(jobs, jobs - len(jct), len(jct) - len(rho))),
    )


def rho(job: JobRecord) -> float | None:
    """Finish-time fairness of one job; None where it did not finish or its time alone is unknown."""
    known = np.isfinite(job.isolated_s) and job.isolated_s > 0
    return job.jct_s / job.isolated_s if job.jct_s is not None and known else None


def jct_cdf(results: Iterable[RunResult]) -> Cdf:
    """Distribution of job completion times in seconds, over the jobs of all given runs.

    Unfinished jobs count in the denominator, so their curve ends below 1 instead of flattering the policy.
    """
    return _cdf([job.jct_s for result in results for job in result.jobs])


def rho_cdf(results: Iterable[RunResult]) -> Cdf:
    """Distribution of finish-time fairness ρ over the jobs of all given runs (unfinished ones as in JCT)."""
    return _cdf([rho(job) for result in results for job in result.jobs])


def timeline(result: RunResult) -> Timeline:
    """Allocated GPUs, GPU-weighted efficiency and job counts over time, exact at every change."""
    cols = _columns(result)
    edges = np.concatenate((cols.since, cols.until, cols.submit, cols.gone))
    times, position = np.unique(edges, return_inverse=True)
    n, jobs = len(cols.since), len(cols.submit)
    since, until, submit, gone = np.split(position, (n, 2 * n, 2 * n + jobs))

    def level(starts: Ints, ends: Ints, weights: Floats) -> Floats:
        change = np.bincount(starts, weights, len(times)) - np.bincount(ends, weights, len(times))
        return np.cumsum(change)

    gpus = level(since, until, cols.gpus)
    useful = level(since, until, cols.gpus * cols.efficiency)
    running = level(since, until, np.ones(n))
    waiting = level(submit, gone, np.ones(jobs)) - running
    efficiency = np.divide(useful, gpus, out=np.full(len(times), np.nan), where=gpus > 0)
    return Timeline(times, gpus, efficiency, running, waiting)


def downsampled(line: Timeline, limit: int) -> Timeline:
    """The same timeline in at most ``limit`` points: time averages over equal intervals where it had more."""
    if len(line.times_s) <= limit:
        return line
    edges = np.linspace(line.times_s[0], line.times_s[-1], limit)
    widths = np.diff(line.times_s)

    def averages(values: Floats) -> Floats:
        area = np.concatenate(([0.0], np.cumsum(values[:-1] * widths)))
        mean = np.diff(np.interp(edges, line.times_s, area)) / np.diff(edges)
        return np.append(mean, values[-1])

    gpus = averages(line.gpus)
    useful = averages(np.nan_to_num(line.efficiency) * line.gpus)
    efficiency = np.divide(useful, gpus, out=np.full(limit, np.nan), where=gpus > 1e-9)
    return Timeline(edges, gpus, efficiency, averages(line.running), averages(line.waiting))


def _columns(result: RunResult) -> _Columns:
    jobs = sorted(result.jobs, key=lambda job: (job.submit_s, job.id))
    held = [[s for s in job.stretches if s.gpus > 0 and s.end_s > s.start_s] for job in jobs]
    flat = list(chain.from_iterable(held))
    ends = (_latest(job) for job in jobs)
    return _Columns(
        submit=_column(jobs, "submit_s"),
        start=_column(jobs, "start_s"),
        finish=_column(jobs, "finish_s"),
        service=_column(jobs, "service_gpu_s"),
        restart=_column(jobs, "restart_gpu_s"),
        restarts=_column(jobs, "restarts"),
        isolated=_column(jobs, "isolated_s"),
        recorded=np.array([bool(job.stretches) for job in jobs], bool),
        owner=np.repeat(np.arange(len(jobs)), [len(kept) for kept in held]),
        since=_column(flat, "start_s"),
        until=_column(flat, "end_s"),
        gpus=_column(flat, "gpus"),
        efficiency=_column(flat, "efficiency"),
        end_s=max(ends, default=0.0),
    )


def _column(items: list[JobRecord] | list[Stretch], name: str) -> Floats:
    """One attribute of every item; None becomes NaN."""
    values = map(attrgetter(name), items)
    return np.fromiter((np.nan if v is None else v for v in values), np.float64, len(items))


def _latest(job: JobRecord) -> float:
    """The last moment a record knows about; the latest over all jobs is where the run ended."""
    if job.finish_s is not None:
        return job.finish_s
    return max([job.submit_s, job.start_s or job.submit_s, *(s.end_s for s in job.stretches)])


def _mean(values: Floats, weights: Floats | None = None) -> float | None:
    if not len(values) or (weights is not None and not weights.sum() > 0):
        return None
    return float(np.average(values, weights=weights))


def _percentile(values: Floats, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None


def _cdf(figures: list[float | None]) -> Cdf:
    values = np.sort(np.array([value for value in figures if value is not None], float))
    return Cdf(values, np.arange(1, len(values) + 1) / max(len(figures), 1))


def _caveats(jobs: int, unfinished: int, without_share: int) -> Iterable[str]:
    if unfinished:
        yield (
            f"{unfinished} of {jobs} jobs did not finish: JCT and ρ are over the {jobs - unfinished} that did, "
            "and the makespan, counted to the end of the run, is a lower bound"
        )
    if without_share:
        yield f"ρ leaves out {without_share} finished jobs whose time alone is unknown"
