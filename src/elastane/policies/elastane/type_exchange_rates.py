"""What a GPU of one accelerator type is worth in GPUs of another: told by the jobs that have run on both.

A job that was never on some type is believed to fare there like the jobs that know both
(``models.accelerator_types``): like half of them if it will end soon, like the luckier quarter if it has time to find
out.  Where nobody knows, types are taken
to be alike, and the job with most before it goes and sees for all: it hopes for more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elastane.models.accelerator_types import best_known, on_type, passes_s, tells_types_apart
from elastane.models.goodput import GoodputModel
from elastane.models.speed import FloatArray
from elastane.policies.elastane.multi_node_gain import patience
from elastane.policies.view import JobView, View

_TINY = 1e-12
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
        """Returns the state to keep in the plan's memory, as JSON values."""
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
        part = _MEDIAN + (_LUCKY - _MEDIAN) * hope
        found = float(np.quantile([each[other] / each[known] for each in both], part))
        return float(np.exp(round(np.log(found) / _STEP) * _STEP))

    def typical(self, types: Sequence[str]) -> FloatArray:
        """How fast a GPU of each type is, as far as anybody knows, over some common measure."""
        best = max(types, key=lambda kind: sum(self.ratio(kind, other) is not None for other in types))
        return np.array([1.0 / (self.ratio(best, kind) or 1.0) for kind in types])


def jobs_on(
    exchange: Exchange, jobs: Sequence[JobView], view: View, types: Sequence[str]
) -> list[tuple[JobView, ...]]:
    """For every type the jobs with what is believed of their speed on it."""
    per_node = max((node.gpus for node in view.usable.values()), default=1)
    hopes = [round(hope, 1) for hope in patience(jobs, per_node).tolist()]
    models = [_typed(job) for job in jobs]
    best = [None if model is None else best_known(model) for model in models]
    known = [_Known(*each) for each in zip(jobs, models, best, hopes, strict=True)]
    return [_on(exchange, known, view, gpu_type) for gpu_type in types]


@dataclass(frozen=True, slots=True)
class _Known:
    """A job, its model if that tells types apart, the type it is known best on, and how much it may hope."""

    job: JobView
    model: GoodputModel | None
    best: str | None
    hope: float

    @property
    def left_s(self) -> float:
        """On one GPU of the type it is known best on."""
        if self.model is None or self.best is None or self.job.remaining is None:
            return 0.0
        return self.job.remaining.mean / max(self.model.best_of(1, 1, self.best)[0], _TINY)


def _on(exchange: Exchange, known: Sequence[_Known], view: View, gpu_type: str) -> tuple[JobView, ...]:
    scouts = _scouts(exchange, known, view, gpu_type)
    ratios: dict[tuple[str, float], float | None] = {}
    found = []
    for each in known:
        job, model, best = each.job, each.model, each.best
        if model is None or best is None:
            found.append(job)
            continue
        key = best, each.hope
        if key not in ratios:
            ratios[key] = exchange.ratio(best, gpu_type, each.hope)
        there = on_type(model, gpu_type, ratios[key] or (1.0 / _HOPE if job.id in scouts else 1.0))
        found.append(job if there is model else replace(job, facts=replace(job.facts, speed=there)))
    return tuple(found)


def _typed(job: JobView) -> GoodputModel | None:
    speed = job.speed
    return speed if isinstance(speed, GoodputModel) and tells_types_apart(speed) else None


def _scouts(exchange: Exchange, known: Sequence[_Known], view: View, gpu_type: str) -> set[str]:
    """For every type from which nobody has gone to this one: who is on the way, or else the job with most left."""
    waiting: dict[str, list[_Known]] = {}
    for each in known:
        willing = not each.job.request.types or gpu_type in each.job.request.types
        if each.model is not None and each.best is not None and gpu_type not in each.model.params and willing:
            waiting.setdefault(each.best, []).append(each)
    found: set[str] = set()
    for best, willing_jobs in waiting.items():
        if exchange.ratio(best, gpu_type) is None:
            there = [each.job.id for each in willing_jobs if _holds(each.job, view, gpu_type)]
            longest = max(willing_jobs, key=lambda each: (each.left_s, each.job.id))
            found.update(there or [longest.job.id])
    return found


def _holds(job: JobView, view: View, gpu_type: str) -> bool:
    parts = job.grant.slices if job.grant else ()
    return any(part.node in view.nodes and view.nodes[part.node].gpu_type == gpu_type for part in parts)
