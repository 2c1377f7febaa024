"""What a GPU of one accelerator type is worth in GPUs of another: told by the jobs that have run on both.

A job that was never on some type is believed to fare there like the jobs that know both (``models.across``): like half
of them if it will end soon, like the luckier quarter if it has time to find out.  Where nobody knows, types are taken
to be alike, and the job with most before it goes and sees for all: it hopes for more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elastane.models.across import best_known, on_type, passes_s, tells_types_apart
from elastane.models.goodput import GoodputModel
from elastane.models.speed import FloatArray
from elastane.policies.elastane.experience import patience
from elastane.policies.view import JobView, View

_KEPT = 50
"""Jobs that are gone and still remembered."""
_MEDIAN, _LUCKY = 0.5, 0.25
_HOPE = 1.5
"""How much faster the job that goes and sees hopes to become."""
_STEP = 0.1
"""Logarithms of ratios are rounded to this, or everything would be computed anew with every measurement."""

Passes = Mapping[str, float]
"""Seconds of a pass on one GPU, by type."""


@dataclass(frozen=True)
class Exchange:
    """Passes of jobs that know several types."""

    gone: tuple[Passes, ...] = ()
    here: Mapping[str, Passes] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Any) -> Exchange:
        """From what the last plan left in the policy's memory."""
        known = memory.get("exchange") if isinstance(memory, Mapping) else None
        return cls(tuple(known["gone"]), dict(known["here"])) if known else cls()

    def memory(self) -> dict[str, Any]:
        """As JSON values."""
        return {"gone": list(self.gone), "here": dict(self.here)}

    def with_jobs(self, jobs: Sequence[JobView]) -> Exchange:
        """With what the jobs at hand have found out; of those that are gone the last ones are kept."""
        present = {job.id for job in jobs}
        gone = [passes for job, passes in sorted(self.here.items()) if job not in present]
        models = {job.id: model for job in jobs if (model := _typed(job)) is not None}
        here = {name: passes_s(model) for name, model in models.items() if len(model.params) > 1}
        return Exchange((*self.gone, *gone)[-_KEPT:], here)

    def ratio(self, known: str, other: str, hope: float = 0.0) -> float | None:
        """How many times as long a pass takes on the other type; None if nobody knows."""
        both = [each for each in (*self.gone, *self.here.values()) if known in each and other in each]
        if not both:
            return None
        part = _MEDIAN + (_LUCKY - _MEDIAN) * round(hope, 1)
        found = float(np.quantile([each[other] / each[known] for each in both], part))
        return float(np.exp(round(np.log(found) / _STEP) * _STEP))

    def typical(self, types: Sequence[str]) -> FloatArray:
        """How fast a GPU of each type is, as far as anybody knows, over some common measure."""
        best = max(types, key=lambda kind: sum(self.ratio(kind, other) is not None for other in types))
        return np.array([1.0 / (self.ratio(best, kind) or 1.0) for kind in types])


def jobs_on(exchange: Exchange, jobs: Sequence[JobView], view: View, gpu_type: str) -> tuple[JobView, ...]:
    """The jobs with what is believed of their speed on that type."""
    per_node = max((node.gpus for node in view.usable.values()), default=1)
    hopes = patience(jobs, per_node)
    scouts = _scouts(exchange, jobs, view, gpu_type)
    found = []
    ratios: dict[tuple[str, float], float | None] = {}
    for job, hope in zip(jobs, hopes.tolist(), strict=True):
        model = _typed(job)
        if model is None:
            found.append(job)
            continue
        best = best_known(model)
        key = best, round(hope, 1)
        if key not in ratios:
            ratios[key] = exchange.ratio(best, gpu_type, hope)
        ratio = ratios[key] or (1.0 / _HOPE if job.id in scouts else 1.0)
        there = on_type(model, gpu_type, ratio)
        found.append(job if there is model else replace(job, facts=replace(job.facts, speed=there)))
    return tuple(found)


def _typed(job: JobView) -> GoodputModel | None:
    speed = job.speed
    return speed if isinstance(speed, GoodputModel) and tells_types_apart(speed) else None


def _scouts(exchange: Exchange, jobs: Sequence[JobView], view: View, gpu_type: str) -> set[str]:
    """For every type from which nobody has gone to this one: who is on the way, or else the job with most left."""
    waiting: dict[str, list[JobView]] = {}
    for job in jobs:
        model = _typed(job)
        willing = not job.request.types or gpu_type in job.request.types
        if model is not None and gpu_type not in model.params and willing:
            waiting.setdefault(best_known(model), []).append(job)
    found: set[str] = set()
    for known, willing_jobs in waiting.items():
        if exchange.ratio(known, gpu_type) is None:
            there = [job.id for job in willing_jobs if _holds(job, view, gpu_type)]
            longest = max(willing_jobs, key=lambda job: (_left_s(job), job.id))
            found.update(there or [longest.id])
    return found


def _holds(job: JobView, view: View, gpu_type: str) -> bool:
    parts = job.grant.slices if job.grant else ()
    return any(part.node in view.nodes and view.nodes[part.node].gpu_type == gpu_type for part in parts)


def _left_s(job: JobView) -> float:
    """Seconds left on one GPU of the type it is known best on."""
    model = _typed(job)
    if model is None or job.remaining is None:
        return 0.0
    return job.remaining.mean / max(model.best_of(1, 1, best_known(model))[0], 1e-12)
