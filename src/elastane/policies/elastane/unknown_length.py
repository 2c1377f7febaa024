"""Estimates the remaining service of jobs of unknown length: the inverse Gittins index over finished jobs.

With nothing known of one job, the best order for the mean is by Gittins index (Gittins, 1979; Tiresias, NSDI'19): the
chance that the job ends within the next Δ of service, over the service that would cost, for the best Δ.  Its inverse is
a length and stands in for the remaining service.  Where finished jobs are few or were shorter, a job is assumed to be
half way, as in least attained service.

=======  =====================================================================
symbol   meaning
=======  =====================================================================
a        service the job has attained, in GPU seconds
S        total service of a job that has finished
length   min over Δ of  E[min(S − a, Δ) | S > a]  ÷  P(S − a ≤ Δ | S > a)
=======  =====================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elastane.models.speed import FloatArray

_DOUBT = 5
"""Weight of the prior, in jobs: so many are assumed to have ended at twice what this one has attained."""
_CLASS = 4.0
"""Lengths are rounded up to powers of this; otherwise jobs that are served would fall behind their equals and be
stopped in turn (Tiresias has queues for the same reason)."""
_MOST = 64
"""More finished jobs than this are represented by as many quantiles."""


def lengths(attained: FloatArray, finished: Sequence[float]) -> FloatArray:
    """Returns the inverse Gittins index of every job, in the unit of ``attained``."""
    past = np.asarray(finished, dtype=np.float64)
    if past.size > _MOST:
        past = np.quantile(past, (np.arange(_MOST) + 0.5) / _MOST)
    half_way = np.repeat(2.0 * attained[:, None], _DOUBT, axis=1)
    weight = max(len(finished) / max(past.size, 1), 1.0)
    ends = np.hstack([np.tile(past, (len(attained), 1)), half_way])
    left = ends - attained[:, None]
    counts = np.where(left > 0.0, weight, 0.0)
    counts[:, past.size :] = 1.0  # a job that has attained nothing is half way to nothing
    order = np.argsort(left, axis=1, kind="stable")
    left = np.maximum(np.take_along_axis(left, order, axis=1), 0.0)
    counts = np.take_along_axis(counts, order, axis=1)
    ended = np.cumsum(counts, axis=1)
    # E[min(S − a, Δ)] at every Δ that is some job's end: those that have ended by then, and Δ for all others.
    spent = np.cumsum(counts * left, axis=1) + (ended[:, -1:] - ended) * left
    found = np.where(ended > 0.0, spent / np.maximum(ended, 1.0), np.inf).min(axis=1)
    out: FloatArray = _CLASS ** np.ceil(np.log(np.maximum(found, 1.0)) / np.log(_CLASS))
    return out
