"""Bursty submission times, as measured on public traces.

Hourly counts are Poisson with intensity rate(hour, weekday) × Gamma(k) (so negative binomial given hour and
weekday).  For an exact number of jobs the counts are conditioned on their sum, which makes them multinomial
with the same intensities: nothing has to be thrown away or invented.
"""

from __future__ import annotations

import numpy as np

from elastane.sim.workloads.fits import Arrivals, Floats, Ints

BURST_S = 30.0
_HOUR_S = 3600.0


def submission_times(arrivals: Arrivals, jobs: int, period_s: float, rng: np.random.Generator) -> Floats:
    """``jobs`` sorted times in [0, period_s), from Monday midnight on, in bursts of jobs within 30 s."""
    counts = _hourly_counts(arrivals, jobs, period_s, rng)
    hours, sizes = _bursts(counts, arrivals.burst_shares, rng)
    lengths = np.minimum(_HOUR_S, period_s - hours * _HOUR_S)
    starts = hours * _HOUR_S + rng.random(len(hours)) * lengths
    times = np.repeat(starts, sizes) + rng.random(jobs) * BURST_S
    return np.sort(np.where(times < period_s, times, np.repeat(starts, sizes)))


def _hourly_counts(arrivals: Arrivals, jobs: int, period_s: float, rng: np.random.Generator) -> Ints:
    hours = np.arange(int(np.ceil(period_s / _HOUR_S)))
    rate = np.array(arrivals.hour)[hours % 24] * np.array(arrivals.weekday)[hours // 24 % 7]
    covered = np.minimum(1.0, period_s / _HOUR_S - hours)
    intensity = rate * covered * rng.gamma(arrivals.k, 1.0 / arrivals.k, len(hours))
    total = intensity.sum()
    # A very small k can round every hour of a short period down to zero; then only the profile is left.
    shares = intensity / total if total > 0 else rate * covered / (rate * covered).sum()
    return rng.multinomial(jobs, shares).astype(np.int64)


def _bursts(counts: Ints, shares: Floats, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """The hour and the size of every burst; an hour's last burst is cut to the jobs that are left."""
    edges = np.cumsum(shares)
    hours: list[int] = []
    sizes: list[int] = []
    for hour in np.flatnonzero(counts):
        left = int(counts[hour])
        while left > 0:
            drawn = int(np.searchsorted(edges, rng.random() * edges[-1], side="right")) + 1
            hours.append(int(hour))
            sizes.append(min(drawn, left))
            left -= sizes[-1]
    return np.array(hours, dtype=np.int64), np.array(sizes, dtype=np.int64)
