"""Weeks of work for a cluster of a given size, with the statistics of a public trace and an exact load.

Load is the GPU time that owners ask for (GPUs × duration, summed over the jobs) ÷ the GPU time the cluster has in the
period.  Jobs are drawn one after another until that much has been asked for; durations are then scaled, all by the same
factor, so that it is exact for every seed.  Otherwise a single long job would decide how full a week is.

A trace of thousands of GPUs over months does not fit a small cluster as it is: jobs wider than half of the cluster, or
longer than two sevenths of the period (two days of a week), are drawn again.  So are jobs under a minute, as Pollux's
evaluation did: most of them failed at their start.  Every job here runs to its end.
"""

from __future__ import annotations

import numpy as np

from elastane.errors import ElastaneError
from elastane.sim.workloads.arrivals import submission_times
from elastane.sim.workloads.extent import MAX_JOBS, check_period
from elastane.sim.workloads.fits import Fit, Floats, Ints, fits
from elastane.sim.workloads.streams import streams
from elastane.sim.workloads.synth import draw_durations, draw_sizes
from elastane.sim.workloads.trace import Trace, TraceJob

WEEKS = {"philly": "philly", "helios": "venus", "itp": "itp"}
"""Name of the week → the fit it is drawn from.  Of Helios' clusters, Venus has the arrivals that were measured."""

SHORTEST_S = 60.0
LONGEST_SHARE = 2 / 7
WIDEST_SHARE = 0.5
_DAY_S = 86400.0
_AT_ONCE = 256
"""Jobs drawn before it is looked whether they are enough."""


def week_like(name: str, seed: int, gpus: int = 64, days: float = 7.0, load: float = 1.0) -> Trace:
    """Jobs of ``days`` days that ask for ``load`` times what ``gpus`` GPUs can give; the same for the same seed."""
    check_period("days", days)
    if LONGEST_SHARE * days * _DAY_S < 10 * SHORTEST_S:
        raise ElastaneError(f"days={days:g}: too short for jobs of this kind; give at least days=0.05")
    if not 2 <= gpus <= MAX_JOBS:
        raise ElastaneError(f"gpus={gpus}: a week is made for a cluster of 2 to {MAX_JOBS:,} GPUs")
    if not 0.0 < load < float("inf"):
        raise ElastaneError(f"load must be a number above zero, not {load:g}")
    fit = fits()[WEEKS[name]]
    arrive, *draws = streams(seed, 3)
    period_s = days * _DAY_S
    wanted_s = load * gpus * period_s
    sizes, durations_s = _enough(fit, int(gpus * WIDEST_SHARE), LONGEST_SHARE * period_s, wanted_s, draws)
    durations_s *= wanted_s / float(sizes @ durations_s)
    submit_s = submission_times(fit.arrivals, len(sizes), period_s, arrive)
    columns = zip(submit_s.tolist(), sizes.tolist(), durations_s.tolist(), strict=True)
    rows = tuple(
        TraceJob(f"{name}-{number}", round(at, 3), gpus=wide, duration_s=round(long, 3))
        for number, (at, wide, long) in enumerate(columns)
    )
    source = f"{name}:{seed},gpus={gpus},days={days:g}"
    return Trace(
        rows, source, (f"synthetic, from figures fitted to {fit.title}; asks for {load:.0%} of the GPUs",)
    )


def _enough(
    fit: Fit, widest: int, longest_s: float, wanted_s: float, draws: list[np.random.Generator]
) -> tuple[Ints, Floats]:
    """The first jobs of an endless row whose GPU time is nearest to what is wanted; at least one."""
    sizes, durations_s = np.zeros(0, dtype=np.int64), np.zeros(0)
    while (asked := np.cumsum(sizes * durations_s)).size == 0 or asked[-1] < wanted_s:
        if len(sizes) > MAX_JOBS:
            raise ElastaneError(f"this load makes more than {MAX_JOBS:,} jobs")
        more = draw_sizes(fit, _AT_ONCE, draws[0])
        long_s = draw_durations(fit, more, draws[1])
        fits_in = (more <= widest) & (long_s >= SHORTEST_S) & (long_s <= longest_s)
        sizes = np.concatenate([sizes, more[fits_in]])
        durations_s = np.concatenate([durations_s, long_s[fits_in]])
    count = int(np.argmin(np.abs(asked - wanted_s))) + 1
    return sizes[:count], durations_s[:count]
