"""Transfers throughput parameters between similar jobs of one tenant, which have run with more GPUs or larger batches.

People submit the same training again and again.  Jobs with the same batch limits whose passes over the same samples
take about equally long count as one kind: how long they synchronise over the network, and how fast they are with large
batches, is measured by one of them for all.  Gradient noise is not transferred, nor is anything between tenants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import ThroughputParams, gradient_time_s
from elastane.policies.elastane.move_cost import ANOTHER_BATCH
from elastane.policies.view import JobView, View

_TINY = 1e-12
_ALIKE = 1.5
"""Ratio of pass times from which two jobs no longer count as one kind."""
_MOST_KINDS = 256
"""Kinds that are remembered at most; the one not updated for longest is forgotten first."""


@dataclass(frozen=True)
class Witness:
    """The best-informed job of a kind: its θ, and the most GPUs and samples per GPU it was seen with."""

    job: str
    theta: ThroughputParams[float]
    seen: int
    widest: int

    @classmethod
    def of(cls, values: list[Any]) -> Witness:
        """Reads a witness back from the policy's memory."""
        job, theta, seen, widest = values
        return cls(str(job), ThroughputParams._make(float(value) for value in theta), int(seen), int(widest))

    def values(self) -> list[Any]:
        """Returns the fields as JSON values, for the policy's memory."""
        return [self.job, list(self.theta), self.seen, self.widest]

    def resembles(self, theta: ThroughputParams[float], per_gpu: int) -> bool:
        """Tells whether a job with this θ is similar enough to learn from this one."""
        return 1.0 / _ALIKE < self.slower(theta, per_gpu) < _ALIKE

    def slower(self, theta: ThroughputParams[float], per_gpu: int) -> float:
        """Returns how many times as long a job with this θ takes for a pass over so many samples."""
        samples = float(per_gpu)
        return gradient_time_s(theta, samples) / max(gradient_time_s(self.theta, samples), _TINY)


Witnesses = tuple[Witness | None, Witness | None]
"""The witnesses of one kind: the job seen with most GPUs, and the one seen with the largest batch."""

Lesson = tuple[list[Witnesses], list[int], GoodputModel | None]
"""A cached result: the witnesses used, GPUs per node of each type, and the new model (None: unchanged)."""

_CACHE: WeakKeyDictionary[GoodputModel, Lesson] = WeakKeyDictionary()
"""Models are immutable, so what was derived from them is kept as long as they live."""


@dataclass(frozen=True)
class SimilarJobs:
    """Witnesses by kind of job and accelerator type."""

    wide: Mapping[str, Witness] = field(default_factory=dict)
    """The jobs seen with most GPUs."""
    large: Mapping[str, Witness] = field(default_factory=dict)
    """The jobs seen with most samples per GPU."""

    @classmethod
    def of(cls, memory: Any) -> SimilarJobs:
        """Reads the witnesses back from the policy's memory; starts empty without one."""
        known = memory.get("kin") if isinstance(memory, dict) else None
        parts = [{kind: Witness.of(values) for kind, values in part.items()} for part in known or ()]
        return cls(*parts)

    def memory(self) -> dict[str, Any]:
        """Returns the state to keep in the plan's memory, as JSON values."""
        parts = (self.wide, self.large)
        return {"kin": [{kind: witness.values() for kind, witness in part.items()} for part in parts]}

    def with_jobs(self, view: View) -> SimilarJobs:
        """Returns the witnesses updated by the jobs of a view; a job has to have seen more to replace one."""
        wide, large = dict(self.wide), dict(self.large)
        for name, job in sorted(view.jobs.items()):
            speed = job.speed
            if not isinstance(speed, GoodputModel):
                continue
            for gpu_type, theta in speed.params.items():
                kind = _kind(job.tenant, speed.limits, gpu_type)
                mine = Witness(name, theta, speed.seen_on(gpu_type), speed.widest)
                best, largest = wide.get(kind), large.get(kind)
                if best is None or best.job == name or mine.seen > best.seen:
                    _tell(wide, kind, mine)
                if largest is None or largest.job == name or mine.widest > largest.widest:
                    _tell(large, kind, mine)
        return SimilarJobs(wide, large)

    def completed(self, view: View) -> View:
        """Returns the view with every job's speed model completed by the witnesses of its kind."""
        per_node: dict[str, int] = {}
        for node in view.usable.values():
            per_node[node.gpu_type] = max(node.gpus, per_node.get(node.gpu_type, 1))
        return replace(view, jobs={name: self._completed(job, per_node) for name, job in view.jobs.items()})

    def _completed(self, job: JobView, per_node: Mapping[str, int]) -> JobView:
        speed = job.speed
        if not isinstance(speed, GoodputModel):
            return job
        kinds = [_kind(job.tenant, speed.limits, gpu_type) for gpu_type in speed.params]
        witnesses = [(_other(self.wide, kind, job), _other(self.large, kind, job)) for kind in kinds]
        widest = max(per_node.values(), default=1)
        nodes = [per_node.get(gpu_type, widest) for gpu_type in speed.params]
        known = _CACHE.get(speed)
        if known is None or known[:2] != (witnesses, nodes):
            known = _CACHE[speed] = witnesses, nodes, _taught(speed, witnesses, nodes)
        return job if known[2] is None else replace(job, facts=replace(job.facts, speed=known[2]))


def _kind(tenant: str, limits: BatchLimits, gpu_type: str) -> str:
    return json.dumps([tenant, gpu_type, *astuple(limits)])


def _tell(part: dict[str, Witness], kind: str, witness: Witness) -> None:
    part.pop(kind, None)
    part[kind] = witness
    if len(part) > _MOST_KINDS:
        del part[next(iter(part))]


def _other(part: Mapping[str, Witness], kind: str, job: JobView) -> Witness | None:
    found = part.get(kind)
    return found if found is not None and found.job != job.id else None


def _taught(speed: GoodputModel, witnesses: list[Witnesses], nodes: list[int]) -> GoodputModel | None:
    """Returns the model with what the witnesses know better, per accelerator type; None if that is nothing."""
    params, widest = dict(speed.params), speed.widest
    own = {gpu_type: speed.seen_on(gpu_type) for gpu_type in params}
    profiled = dict(own)
    per_gpu = max(speed.widest, speed.limits.per_gpu_min)
    for (gpu_type, theta), (wide, large), per_node in zip(speed.params.items(), witnesses, nodes, strict=True):
        if (
            large
            and speed.widest
            and large.widest > ANOTHER_BATCH * speed.widest
            and large.resembles(theta, per_gpu)
        ):
            factor = large.slower(theta, per_gpu)
            passes = large.theta.alpha_c * factor, large.theta.beta_c * factor
            params[gpu_type] = theta._replace(alpha_c=passes[0], beta_c=passes[1])
            widest = max(widest, large.widest)
        seen = own[gpu_type]
        if wide and seen <= per_node and wide.seen > seen and wide.resembles(theta, per_gpu):
            params[gpu_type] = _exchanging(params[gpu_type], seen, wide, per_node)
            profiled[gpu_type] = wide.seen
    if params == speed.params and widest == speed.widest and profiled == own:
        return None
    most = max([speed.max_profiled, *profiled.values()])
    return replace(speed, params=params, profiled=profiled, widest=widest, max_profiled=most)


def _exchanging(
    theta: ThroughputParams[float], seen: int, wide: Witness, per_node: int
) -> ThroughputParams[float]:
    """Returns θ of a job seen on one node only, with the synchronisation times that only the witness has measured."""
    found, other = theta, wide.theta
    if wide.seen > per_node:
        found = found._replace(alpha_n=other.alpha_n, beta_n=other.beta_n)
    if seen <= 1:
        found = found._replace(alpha_r=other.alpha_r, beta_r=other.beta_r, gamma=other.gamma)
    elif seen == 2:
        found = found._replace(beta_r=other.beta_r)
    return found
