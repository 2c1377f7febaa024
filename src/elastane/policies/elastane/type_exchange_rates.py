"""Estimates the speed of jobs on accelerator types they have not run on, from jobs that have run on both types.

A pass takes a job that is new to a type as long as it takes others that know both (``models.accelerator_types``): the
median of them if it will end soon, the faster quarter if it has time to explore.  Where no job knows both, the types
are assumed to be equally fast, except for one *scout*, the job with most work left: assumed to be faster there, it is
sent to find out.
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
"""Jobs remembered after they are gone, at most."""
_MEDIAN, _LUCKY = 0.5, 0.25
_HOPE = 1.5
"""Speed-up assumed for the scout on the type it has not run on."""
_STEP = 0.1
"""Grid to which logarithms of ratios are rounded, so that not every measurement makes new models."""

Passes = Mapping[str, float]
"""Seconds of a pass on one GPU, by type."""


@dataclass(frozen=True)
class Exchange:
    """Pass times of jobs that have run on several types: of those that are gone, and of unfinished ones by id."""

    gone: tuple[Passes, ...] = ()
    here: Mapping[str, Passes] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Any) -> Exchange:
        """Reads the state back from the policy's memory; starts empty without one."""
        known = memory.get("exchange") if isinstance(memory, Mapping) else None
        return cls(tuple(known["gone"]), dict(known["here"])) if known else cls()

    def memory(self) -> dict[str, Any]:
        """Returns the state to keep in the plan's memory, as JSON values."""
        return {"gone": list(self.gone), "here": dict(self.here)}

    def with_jobs(self, jobs: Sequence[JobView]) -> Exchange:
        """Returns the state updated by these unfinished jobs; of those that are gone the last ones are kept."""
        present = {job.id for job in jobs}
        gone = [passes for job, passes in sorted(self.here.items()) if job not in present]
        models = {job.id: model for job in jobs if (model := _typed(job)) is not None}
        here = {name: passes_s(model) for name, model in models.items() if len(model.params) > 1}
        return Exchange((*self.gone, *gone)[-_KEPT:], here)

    def ratio(self, known: str, other: str, hope: float = 0.0) -> float | None:
        """Returns how many times as long a pass takes on ``other``; None if no job knows both types."""
        both = [each for each in (*self.gone, *self.here.values()) if known in each and other in each]
        if not both:
            return None
        part = _MEDIAN + (_LUCKY - _MEDIAN) * hope
        found = float(np.quantile([each[other] / each[known] for each in both], part))
        return float(np.exp(round(np.log(found) / _STEP) * _STEP))

    def typical(self, types: Sequence[str]) -> FloatArray:
        """Returns the relative speed of a GPU of each type; 1 for types that cannot be compared."""
        best = max(types, key=lambda kind: sum(self.ratio(kind, other) is not None for other in types))
        return np.array([1.0 / (self.ratio(best, kind) or 1.0) for kind in types])


def jobs_on(
    exchange: Exchange, jobs: Sequence[JobView], view: View, types: Sequence[str]
) -> list[tuple[JobView, ...]]:
    """Returns for every type the jobs with the speed model assumed for them on that type."""
    per_node = max((node.gpus for node in view.usable.values()), default=1)
    hopes = [round(hope, 1) for hope in patience(jobs, per_node).tolist()]
    models = [_typed(job) for job in jobs]
    best = [None if model is None else best_known(model) for model in models]
    known = [_Known(*each) for each in zip(jobs, models, best, hopes, strict=True)]
    return [_on(exchange, known, view, gpu_type) for gpu_type in types]


@dataclass(frozen=True, slots=True)
class _Known:
    """A job, its model if that distinguishes types, the type it is best known on, and how far it may explore."""

    job: JobView
    model: GoodputModel | None
    best: str | None
    hope: float

    @property
    def left_s(self) -> float:
        """Seconds left on one GPU of the type it is best known on; 0 where unknown."""
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
    """Returns the scouts for this type: for every type without a ratio, jobs already there, or that with most left."""
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
