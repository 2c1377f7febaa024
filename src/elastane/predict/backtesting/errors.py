"""Scores a cost model against measured timings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.predict.costs.contract import CostModel, Timing
from elastane.predict.interval import Z90


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of one model on one set of timings, in percent of the measured time."""

    model: str
    rows: int
    median: float
    p90: float
    mean: float
    bias: float
    """Median of the signed errors, in percent."""
    covered: float
    """Percentage of measurements within the 90 % interval."""
    rmse_ms: float


def score(model: CostModel, rows: Sequence[Timing]) -> Score:
    """Scores a model on rows of one device and precision."""
    times = model.times([each.operator for each in rows], rows[0].device, rows[0].precision)
    measured = np.array([each.seconds for each in rows])
    errors = 100.0 * (times.seconds / measured - 1.0)
    sizes = np.abs(errors)
    return Score(
        model=model.name,
        rows=len(rows),
        median=float(np.median(sizes)),
        p90=float(np.quantile(sizes, 0.9)),
        mean=float(sizes.mean()),
        bias=float(np.median(errors)),
        covered=float(100.0 * np.mean(np.abs(np.log(measured / times.seconds)) <= Z90 * times.log_sd)),
        rmse_ms=float(1e3 * np.sqrt(np.mean((times.seconds - measured) ** 2))),
    )
