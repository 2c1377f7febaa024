"""Errors of cost models on timings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elastane.models.speed import FloatArray
from elastane.predict.costs.contract import CostModel, Timing

Z90 = 1.645


def relative(model: CostModel, rows: Sequence[Timing]) -> FloatArray:
    """Predicted over measured, minus one; all rows of one device."""
    predicted = model.times([each.operator for each in rows], rows[0].device).seconds
    return np.asarray(predicted / np.array([each.seconds for each in rows]) - 1.0, np.float64)


def median_percent(errors: FloatArray) -> float:
    """Median size of errors, in percent."""
    return float(100.0 * np.median(np.abs(errors)))


def mean_percent(errors: FloatArray) -> float:
    """Mean size of errors, in percent."""
    return float(100.0 * np.mean(np.abs(errors)))


def covered_percent(model: CostModel, rows: Sequence[Timing]) -> float:
    """Share of measurements within the 90 % interval."""
    times = model.times([each.operator for each in rows], rows[0].device)
    off = np.abs(np.log(np.array([each.seconds for each in rows]) / times.seconds))
    return float(100.0 * np.mean(off <= Z90 * times.log_sd))
