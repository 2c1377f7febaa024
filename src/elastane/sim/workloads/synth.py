"""Synthetic traces with the statistics of a public one."""

from __future__ import annotations

import numpy as np

from elastane.errors import ElastaneError
from elastane.sim.workloads.arrivals import submission_times
from elastane.sim.workloads.extent import MAX_JOBS, check_jobs, check_period, scaled_count
from elastane.sim.workloads.fits import Fit, Floats, Ints, fit_named, size_class
from elastane.sim.workloads.streams import streams
from elastane.sim.workloads.trace import Trace, TraceJob

_DAY_S = 86400.0


def synthesise(
    name: str, jobs: int | None = None, days: float | None = None, seed: int = 0, load: float = 1.0
) -> Trace:
    """A trace like ``name``: exactly ``jobs`` × ``load`` jobs over ``days`` days, the same for the same seed.

    What is not given follows from the trace's own arrival rate; without both it is one day.  Submission times,
    sizes and durations have random streams of their own, so that a change in one leaves the others alone.
    """
    fit = fit_named(name)
    jobs, days = _extent(fit, jobs, days)
    count = scaled_count(jobs, load)
    arrive, size, last = streams(seed, 3)
    submit_s = submission_times(fit.arrivals, count, days * _DAY_S, arrive)
    gpus = draw_sizes(fit, count, size)
    duration_s = draw_durations(fit, gpus, last)
    columns = zip(submit_s.tolist(), gpus.tolist(), duration_s.tolist(), strict=True)
    rows = tuple(
        TraceJob(f"{name}-{number}", round(at, 3), gpus=wide, duration_s=round(long, 3))
        for number, (at, wide, long) in enumerate(columns)
    )
    return Trace(rows, f"synth:{name},jobs={count},days={days:.12g},seed={seed}", _notes(fit))


def _extent(fit: Fit, jobs: int | None, days: float | None) -> tuple[int, float]:
    per_day = fit.arrivals.mean_per_hour * 24.0
    if jobs is not None:
        check_jobs(jobs)
    if days is None:
        days = 1.0 if jobs is None else max(1e-4, round(jobs / per_day, 4))
    check_period("days", days)
    if jobs is None:
        jobs = max(1, round(per_day * days))
        if jobs > MAX_JOBS:
            raise ElastaneError(
                f"days={days:g} makes {jobs:,} jobs, more than {MAX_JOBS:,}; give jobs=N as well"
            )
    return jobs, days


def draw_sizes(fit: Fit, jobs: int, rng: np.random.Generator) -> Ints:
    """GPUs of so many jobs."""
    edges = np.cumsum(fit.gpu_shares)
    place = np.minimum(np.searchsorted(edges, rng.random(jobs), side="right"), len(edges) - 1)
    return fit.gpus[place]


def draw_durations(fit: Fit, gpus: Ints, rng: np.random.Generator) -> Floats:
    """Seconds of jobs of these sizes."""
    # Two numbers per job whatever its size, so that another size mix does not shift the other jobs' draws.
    which, where = rng.random((len(gpus), 2)).T
    seconds = np.empty(len(gpus))
    classes = size_class(gpus)
    for size in np.unique(classes):
        chosen = classes == size
        seconds[chosen] = fit.durations_for(int(size)).sample(which[chosen], where[chosen])
    return seconds


def _notes(fit: Fit) -> tuple[str, ...]:
    notes = [f"synthetic, from figures fitted to {fit.title}"]
    if fit.borrowed:
        notes.append(f"not measured on this trace: {fit.borrowed}")
    if fit.status:
        mix = ", ".join(f"{share:.0%} {status}" for status, share in fit.status.items())
        notes.append(f"in the source {mix}; here every job runs to its end")
    return tuple(notes)
