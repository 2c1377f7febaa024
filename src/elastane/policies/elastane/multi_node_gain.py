"""Learns the speed-up exponent beyond one node from jobs that have used several, for jobs that have not yet.

A fitted model is optimistic about configurations it has not seen.  Most of the loss from growing occurs where a job
first has to synchronise over the network, and other jobs on this cluster have measured that already.  A job that will
end soon is assumed to fare like them; one with much work left may explore, so a larger exponent is assumed for it.
That optimism serves only to divide GPUs; prices of work, which postpone jobs, rest on the usual exponent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from elastane.models.goodput import GoodputModel
from elastane.models.speed import FloatArray
from elastane.policies.view import JobView

_TINY = 1e-12
_DOUBT = 3.0
"""Weight of the prior exponent, in jobs."""
_SOBER = 0.4
"""Prior of the usual exponent, before any job has used several nodes."""
_RESTARTS = 50.0
"""Remaining time, in restarts of the job, from which it may explore without reserve."""
_LEAST, _MOST = -0.5, 1.0

_CACHE: WeakKeyDictionary[GoodputModel, _Findings] = WeakKeyDictionary()
"""Models are immutable, so what was derived from them is kept as long as they live."""


@dataclass(frozen=True)
class Experience:
    """Exponents e of jobs that have used several nodes: with k times more GPUs than a node has, k^e times as fast.

    A job whose model was completed by similar jobs (``similar_jobs``) counts too, because the jobs that explore
    first are not typical ones.
    """

    total: float = 0.0
    count: int = 0
    """Number of jobs that are gone; ``total`` is the sum of their exponents."""
    here: Mapping[str, float] = field(default_factory=dict)
    """Exponents of the unfinished jobs, by id."""

    @classmethod
    def of(cls, memory: Any) -> Experience:
        """Reads the state back from the policy's memory; starts empty without one."""
        known = memory.get("beyond") if isinstance(memory, dict) else None
        return cls(float(known["total"]), int(known["count"]), dict(known["here"])) if known else cls()

    def memory(self) -> dict[str, Any]:
        """Returns the state to keep in the plan's memory, as JSON values."""
        return {"total": self.total, "count": self.count, "here": dict(self.here)}

    def with_jobs(self, jobs: Sequence[JobView], per_node: int) -> Experience:
        """Returns the state with the exponents of these unfinished jobs; those of jobs that are gone are summed up."""
        present = {job.id for job in jobs}
        gone = [value for job, value in self.here.items() if job not in present]
        found = {job.id: _exponent(job, per_node) for job in jobs}
        here = {name: value for name, value in found.items() if value is not None}
        return Experience(self.total + sum(gone), self.count + len(gone), here)

    def exponents(self, jobs: Sequence[JobView], per_node: int, hope: float) -> FloatArray:
        """Returns an exponent per job, between the mean of others and ``hope``; the longer it runs, the more hope."""
        expected = min(self._mean(hope), hope)
        out: FloatArray = expected + (hope - expected) * patience(jobs, per_node)
        return out

    def usual(self, count: int) -> FloatArray:
        """Returns the usual exponent (the mean, with a sober prior) for each of ``count`` jobs."""
        return np.full(count, self._mean(_SOBER))

    def _mean(self, before: float) -> float:
        """Returns the mean of all exponents and the prior ``before``, at least 0."""
        total = before * _DOUBT + self.total + sum(self.here.values())
        return max(total / (_DOUBT + self.count + len(self.here)), 0.0)


def patience(jobs: Sequence[JobView], per_node: int) -> FloatArray:
    """Returns how far each job can afford to explore: 1 with many restarts' time ahead of it, 0 at its end."""
    ahead = np.array([_left_s(job, per_node) / max(_RESTARTS * job.restart_s, _TINY) for job in jobs])
    out: FloatArray = np.minimum(ahead, 1.0)
    return out


@dataclass(frozen=True, slots=True)
class _Findings:
    """Figures of one model: the exponent, if the job has used several nodes, and its rate with most GPUs seen."""

    per_node: int
    exponent: float | None
    rate: float


def _findings(speed: GoodputModel, per_node: int) -> _Findings:
    known = _CACHE.get(speed)
    if known is not None and known.per_node == per_node:
        return known
    most = min(max(speed.max_profiled, 1), speed.max_useful)
    seen = speed.best_of(1 if most <= per_node else 2, most)[0]
    exponent = None
    if most > per_node:
        here = speed.best_of(1, per_node)[0]
        if min(here, seen) > 0.0:
            exponent = float(np.clip(np.log(seen / here) / np.log(most / per_node), _LEAST, _MOST))
    found = _CACHE[speed] = _Findings(per_node, exponent, seen)
    return found


def _exponent(job: JobView, per_node: int) -> float | None:
    """Returns the job's own exponent; None if it has not used several nodes."""
    speed = job.speed
    return _findings(speed, per_node).exponent if isinstance(speed, GoodputModel) else None


def _left_s(job: JobView, per_node: int) -> float:
    """Returns seconds left with the most GPUs it was seen with; infinite where that is unknown."""
    speed = job.speed
    if job.remaining is None or not isinstance(speed, GoodputModel):
        return np.inf
    rate = _findings(speed, per_node).rate
    return job.remaining.mean / rate if rate > 0.0 else np.inf
