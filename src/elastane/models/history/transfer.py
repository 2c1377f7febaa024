"""Estimates the speed ratio of two accelerators from kinds of jobs that ran on both (as Sia bootstraps, SOSP'23).

It compares one pass on one GPU at a batch both were seen with; the ratio is then used for the whole step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations

import numpy as np

from elastane.models.estimate import Estimate, Provenance
from elastane.models.history.experience import Experience, Timing

_PRIOR_STD = 0.3
"""Prior standard deviation of the logarithmic ratio between kinds of jobs."""

Ratios = Mapping[tuple[str, str], Estimate]
"""ln(time on the second ÷ time on the first) by pair of types, the most certain first."""


def one_gpu_ratios(kinds: Iterable[Sequence[Experience]]) -> Ratios:
    """Estimates the ratios of all pairs of accelerators over kinds of jobs (each a list of experiences)."""
    logs: dict[tuple[str, str], list[float]] = {}
    for group in kinds:
        seen: dict[str, list[Timing]] = {}
        for past in group:
            for gpu_type, rows in past.timings.items():
                seen.setdefault(gpu_type, []).extend(rows)
        for one, other in permutations(sorted(seen), 2):
            if seen[one] and seen[other]:
                logs.setdefault((one, other), []).append(_log_ratio(seen[one], seen[other]))
    found = {pair: _estimate(values) for pair, values in logs.items()}
    return dict(sorted(found.items(), key=lambda item: (item[1].std, item[0])))


def _estimate(values: list[float]) -> Estimate:
    mean = sum(values) / len(values)
    scatter = sum((value - mean) ** 2 for value in values)
    return Estimate(mean, math.sqrt((scatter + _PRIOR_STD**2) / len(values)), len(values), Provenance.HISTORY)


def _log_ratio(one: Sequence[Timing], other: Sequence[Timing]) -> float:
    """Returns the logarithmic ratio at the middle of the batches both were seen with, or between them if disjoint."""
    low = max(min(t.per_gpu for t in one), min(t.per_gpu for t in other))
    high = min(max(t.per_gpu for t in one), max(t.per_gpu for t in other))
    per_gpu = math.sqrt(low * high)
    return math.log(_pass_s(other, per_gpu) / _pass_s(one, per_gpu))


def _pass_s(seen: Sequence[Timing], per_gpu: float) -> float:
    """Predicts seconds of a pass, α + β·m by relative least squares; a single batch is split half and half."""
    batch = np.array([float(t.per_gpu) for t in seen])
    time_s = np.array([t.gradient_s for t in seen])
    if np.all(batch == batch[0]):
        return float(np.exp(np.log(time_s).mean())) * (0.5 + 0.5 * per_gpu / float(batch[0]))
    matrix = np.column_stack([1.0 / time_s, batch / time_s])
    alpha, beta = np.linalg.lstsq(matrix, np.ones(len(seen)), rcond=None)[0].tolist()
    guess = alpha + beta * per_gpu
    nearest = float(time_s[np.argmin(np.abs(np.log(batch / per_gpu)))])
    return float(guess) if 0.5 * nearest < guess < 2.0 * nearest else nearest
