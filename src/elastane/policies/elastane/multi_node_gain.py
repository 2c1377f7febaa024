"""What growing beyond one node has brought the jobs so far: a belief about those that have not tried it yet.

A fitted model knows nothing of what it has not seen, and hopes.  Most of what jobs lose by growing they lose where
they first have to talk over the network, and how much that is, other jobs on this cluster have found out already.  A
job that will end soon is believed to fare like them; one with much before it can afford to find out for itself.  That
hope is for dividing GPUs alone: who is put off because he will have the whole cluster one day should not be put off on
the strength of a hope, so what work is worth rests on what is usual.
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
"""What was believed before anybody had tried counts as much as so many jobs."""
_SOBER = 0.4
"""What is taken for usual before anybody has tried."""
_RESTARTS = 50.0
"""A job with as many restarts' time ahead of it can afford to find out for itself."""
_LEAST, _MOST = -0.5, 1.0

_CACHE: WeakKeyDictionary[GoodputModel, _Findings] = WeakKeyDictionary()
"""Models are immutable, so what they tell is kept as long as they live."""


@dataclass(frozen=True)
class Experience:
    """Exponents e of jobs that know several nodes: with k times more GPUs than a node has, k^e times as fast.

    Who was told by others of its kind (``kin``) counts as one who knows: those that try are not those that are usual.
    """

    total: float = 0.0
    count: int = 0
    """Of jobs that are gone."""
    here: Mapping[str, float] = field(default_factory=dict)
    """Of jobs at hand."""

    @classmethod
    def of(cls, memory: Any) -> Experience:
        """From what the last plan left in the policy's memory."""
        known = memory.get("beyond") if isinstance(memory, dict) else None
        return cls(float(known["total"]), int(known["count"]), dict(known["here"])) if known else cls()

    def memory(self) -> dict[str, Any]:
        """Returns the state to keep in the plan's memory, as JSON values."""
        return {"total": self.total, "count": self.count, "here": dict(self.here)}

    def with_jobs(self, jobs: Sequence[JobView], per_node: int) -> Experience:
        """With what the jobs at hand have found out; what those that are gone had found out is kept."""
        present = {job.id for job in jobs}
        gone = [value for job, value in self.here.items() if job not in present]
        found = {job.id: _exponent(job, per_node) for job in jobs}
        here = {name: value for name, value in found.items() if value is not None}
        return Experience(self.total + sum(gone), self.count + len(gone), here)

    def exponents(self, jobs: Sequence[JobView], per_node: int, hope: float) -> FloatArray:
        """Of each job: between what others have found and ``hope``, the more of that the longer it will go on."""
        expected = min(self._mean(hope), hope)
        out: FloatArray = expected + (hope - expected) * patience(jobs, per_node)
        return out

    def usual(self, count: int) -> FloatArray:
        """What others have found, for each of so many jobs."""
        return np.full(count, self._mean(_SOBER))

    def _mean(self, before: float) -> float:
        """Of all that was found, and of what was believed before."""
        total = before * _DOUBT + self.total + sum(self.here.values())
        return max(total / (_DOUBT + self.count + len(self.here)), 0.0)


def patience(jobs: Sequence[JobView], per_node: int) -> FloatArray:
    """How far each job can afford to find out for itself: 1 with many restarts' time ahead of it, 0 at its end."""
    ahead = np.array([_left_s(job, per_node) / max(_RESTARTS * job.restart_s, _TINY) for job in jobs])
    out: FloatArray = np.minimum(ahead, 1.0)
    return out


@dataclass(frozen=True, slots=True)
class _Findings:
    """What one model tells: the exponent, if the job has tried, and its rate where it was seen with most GPUs."""

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
    """What the job itself has found out; None if it has not tried."""
    speed = job.speed
    return _findings(speed, per_node).exponent if isinstance(speed, GoodputModel) else None


def _left_s(job: JobView, per_node: int) -> float:
    """Seconds left with as many GPUs as it was seen with; infinite where nobody can tell."""
    speed = job.speed
    if job.remaining is None or not isinstance(speed, GoodputModel):
        return np.inf
    rate = _findings(speed, per_node).rate
    return job.remaining.mean / rate if rate > 0.0 else np.inf
