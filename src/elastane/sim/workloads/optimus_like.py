"""Workloads of the kind Optimus was evaluated on (EuroSys'18): jobs with parameter servers, evenly spread in time.

The paper submits jobs of nine model types, synchronous or asynchronous at random, uniformly within 12,000 seconds.
Here they are drawn from ``truth.server_kinds``, most of whose figures are made up; so is what owners ask for.
"""

from __future__ import annotations

import numpy as np

from elastane.sim.truth.server_kinds import KINDS
from elastane.sim.workloads.extent import check_jobs, check_period, scaled_count
from elastane.sim.workloads.streams import streams
from elastane.sim.workloads.trace import Trace, TraceJob

PREFIX = "ps/"
"""Before the kind in ``TraceJob.app``, where the catalog's applications have no slash."""

PERIOD_S = 12_000.0
_WORKERS = (2, 4, 8)


def is_server_app(app: str | None) -> bool:
    """Whether a row of a trace is a job with parameter servers."""
    return app is not None and app.startswith(PREFIX)


def optimus_like(seed: int, jobs: int = 27, hours: float | None = None, load: float = 1.0) -> Trace:
    """``jobs`` × ``load`` jobs over ``hours`` hours, by default the paper's 12,000 s (nine types, three of each).

    Submission, kind and size have random streams of their own.
    """
    period_s = PERIOD_S if hours is None else hours * 3600.0
    check_jobs(jobs)
    check_period("hours", period_s / 3600.0, per_day=24)
    count = scaled_count(jobs, load)
    arrive, kind, size = streams(seed, 3)
    submit_s = np.sort(arrive.uniform(0.0, period_s, count)).round(3).tolist()
    names = [sorted(KINDS)[i] for i in kind.integers(len(KINDS), size=count).tolist()]
    workers = size.choice(_WORKERS, size=count).tolist()
    rows = tuple(
        TraceJob(f"{name}-{number}", at, gpus=gpus, app=PREFIX + name)
        for number, (name, at, gpus) in enumerate(zip(names, submit_s, workers, strict=True))
    )
    note = "parameter-server jobs of Optimus's kind; most of their figures are made up"
    return Trace(rows, f"optimus:{seed},jobs={count},hours={period_s / 3600.0:g}", (note,))
