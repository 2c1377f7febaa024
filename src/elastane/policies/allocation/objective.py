"""Pollux's cluster objective (OSDI'21, §4.2): the power mean of fair-share speed-ups, moves discounted.

=============  =================================================================
symbol         meaning
=============  =================================================================
speedup_j(a)   goodput with allocation a ÷ goodput with a fair share of the cluster
realloc_j      max(T − R·δ, 0) / (T + δ): age T, restarts R, restart time δ
fitness_p      ((1/J) Σ speedup_j^p)^(1/p); p = −1 by default, −∞ is max-min
=============  =================================================================
"""

from __future__ import annotations

import numpy as np

from elastane.models.speed import FloatArray

_OFFSET = 1e-3  # keeps jobs with nothing finite when p < 0


def contribution(speedup: FloatArray, p: float) -> FloatArray:
    """Returns a job's term in the sum that is maximised; it increases with the speed-up for every p."""
    shifted = speedup + _OFFSET
    if p == 0.0:
        return np.log(shifted)
    raised: FloatArray = shifted**p
    return raised if p > 0 else -raised


def fitness(speedups: FloatArray, p: float) -> FloatArray:
    """Returns the power mean of speed-ups over the last axis."""
    mean = np.mean(contribution(speedups, p), axis=-1)
    if p == 0.0:
        return np.asarray(np.exp(mean))
    out: FloatArray = np.abs(mean) ** (1.0 / p)
    return out
