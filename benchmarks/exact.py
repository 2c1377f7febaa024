"""The exact optimum of the count problem as a mixed-integer programme (HiGHS), to measure our solver against."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from elastane.models.speed import FloatArray, IntArray


def exact_counts(values: FloatArray, total: int) -> IntArray:
    """One binary per (job, allowed size): one size per job, sizes within the total, largest sum of values."""
    rows, sizes = np.nonzero(np.isfinite(values))
    count = len(rows)
    one_size = coo_array((np.ones(count), (rows, np.arange(count))), shape=(len(values), count))
    answer = milp(
        -values[rows, sizes],
        integrality=np.ones(count, dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(one_size, 1, 1),
            LinearConstraint(sizes.astype(np.float64), 0, total),
        ],
        options={"mip_rel_gap": 1e-7},
    )
    assert answer.x is not None, answer.message
    counts = np.zeros(len(values), dtype=np.int64)
    chosen = answer.x > 0.5
    counts[rows[chosen]] = sizes[chosen]
    return counts
