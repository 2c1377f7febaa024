"""The inputs of Gavel's optimisation problems: who may run where, how fast, and how much of each type there is.

=========  ====================================================================
symbol     meaning
=========  ====================================================================
n, k       jobs, accelerator types
T[j,τ]     throughput of job j with all its workers on type τ: ``rates``
w_j        GPUs the job needs at once: ``width``
R_τ        GPUs of type τ: ``capacity``
X[j,τ]     the answer: the fraction of wall time that j spends on τ
thr_j(X)   Σ_τ T[j,τ]·X[j,τ], the effective throughput
=========  ====================================================================

An allocation X is feasible if X ≥ 0, Σ_τ X[j,τ] ≤ 1 for every job and Σ_j w_j·X[j,τ] ≤ R_τ for every type.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

_PER_JOB = (
    "rates",
    "width",
    "weight",
    "count",
    "remaining",
    "elapsed_s",
    "isolated_s",
    "left_s",
    "rank",
    "entity",
)
_DIGITS = 12


@dataclass(frozen=True)
class Problem:
    """One decision's data, a row per job.

    ``count`` is how many identical jobs a row stands for; every one of them gets the row's X.  ``left_s`` is the time
    to the deadline (infinite without one), ``isolated_s`` the time that the work done so far would have taken on an
    equal share.  ``entity`` says to whom a job belongs (an index into ``entity_weight``), ``rank`` who came first.
    """

    rates: FloatArray
    width: FloatArray
    capacity: FloatArray
    weight: FloatArray
    count: FloatArray
    remaining: FloatArray
    elapsed_s: FloatArray
    isolated_s: FloatArray
    left_s: FloatArray
    price: FloatArray
    rank: FloatArray
    entity: IntArray
    entity_weight: FloatArray

    @classmethod
    def of(
        cls, rates: FloatArray, capacity: FloatArray, width: FloatArray | None = None, **other: FloatArray
    ) -> Problem:
        """Rates, capacities and whatever else is not the same for all jobs."""
        n, k = rates.shape
        ones = np.ones(n)
        values: dict[str, FloatArray | IntArray] = {
            "width": ones if width is None else width,
            "weight": ones,
            "count": ones,
            "remaining": ones,
            "elapsed_s": np.zeros(n),
            "isolated_s": np.zeros(n),
            "left_s": np.full(n, np.inf),
            "price": np.ones(k),
            "rank": np.arange(n, dtype=np.float64),
            "entity": np.zeros(n, dtype=np.int64),
            "entity_weight": np.ones(1),
        }
        return cls(rates=rates, capacity=capacity, **{**values, **other})  # type: ignore[arg-type]

    @property
    def jobs(self) -> float:
        """The number of jobs, each counted as often as it occurs."""
        return float(self.count.sum())

    @property
    def allowed(self) -> BoolArray:
        """Where a job makes any progress."""
        return self.rates > 0.0

    def effective(self, x: FloatArray) -> FloatArray:
        """Effective throughput of every job under an allocation."""
        return np.asarray((self.rates * x).sum(axis=1))

    def equal_share(self) -> FloatArray:
        """Effective throughput if each job had an n-th of every type, and no more than all of the time."""
        share = self.capacity / self.jobs
        return self.effective(np.broadcast_to(share / max(share.sum(), 1.0), self.rates.shape))

    def isolated(self) -> FloatArray:
        """Effective throughput on a private n-th of the cluster, which a wide job has to save up for.

        As in the released code the widest share is stretched to all of the time, the others in proportion.
        """
        share = self.capacity[None, :] / self.jobs / self.width[:, None]
        return self.effective(share / share.sum(axis=1).max())

    def best(self) -> FloatArray:
        """Throughput on each job's fastest type; 1 where a job can run nowhere."""
        fastest = self.rates.max(axis=1, initial=0.0)
        return np.where(fastest > 0.0, fastest, 1.0)

    def rows(self, chosen: BoolArray | IntArray) -> Problem:
        """The same with these rows only."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in _PER_JOB})

    def merged(self, *read: str) -> tuple[Problem, IntArray]:
        """Identical jobs as one row, and the row of each job.

        Exact for every convex problem that reads only T, w and the columns named: the mean of an optimal solution
        over identical jobs is again optimal.
        """
        columns = [self.rates, self.width[:, None], *(getattr(self, name)[:, None] for name in read)]
        table = np.round(np.concatenate([np.asarray(c, dtype=np.float64) for c in columns], axis=1), _DIGITS)
        _, first, row = np.unique(table, axis=0, return_index=True, return_inverse=True)
        row = row.reshape(-1)
        kept = self.rows(first)
        return replace(kept, count=np.bincount(row, weights=self.count).astype(np.float64)), row


assert set(_PER_JOB) <= {f.name for f in fields(Problem)}
