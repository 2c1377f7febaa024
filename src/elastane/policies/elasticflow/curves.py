"""Describes how fast one job is with each number of GPUs it may have, and how much work it has left.

=========  ====================================================
symbol     meaning
=========  ====================================================
T(x)       work per second with x GPUs on as few nodes as possible
W          work left
=========  ====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.view import Ability, JobView, View, has

_EXPLORE = 2
"""A curve that was fitted is believed up to this many times the GPUs the job was seen with."""


class HasCurve(Protocol):
    """What the filling of time slots has to know of a job."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of GPUs that it may have, from the smallest."""
        ...

    @property
    def rates(self) -> FloatArray:
        """T of each size."""
        ...

    @property
    def work(self) -> float:
        """W, in the unit of T times seconds."""
        ...


@dataclass(frozen=True)
class Curve:
    """The scaling curve of one job on one accelerator type; ``work`` is not a number where it is not known."""

    sizes: tuple[int, ...]
    rates: FloatArray
    work: float

    @property
    def known(self) -> bool:
        """Whether anything can be promised: work is left to do, and some size does it."""
        return bool(np.isfinite(self.work)) and float(self.rates.max(initial=0.0)) > 0.0

    def gpu_s(self, size: int) -> float:
        """Returns the GPU seconds of finishing at this size from now on: x · W ÷ T(x)."""
        rate = self.rate(size)
        return size * self.work / rate if rate > 0.0 else float("inf")

    def rate(self, size: int) -> float:
        """Returns T of a size, 0 for none."""
        return float(self.rates[self.sizes.index(size)]) if size else 0.0


def curve_of(job: JobView, view: View, gpu_type: str) -> Curve | None:
    """Returns the curve on one type of the cluster; None if the job cannot have any number of its GPUs."""
    nodes = sorted((node.gpus for node in view.usable.values() if node.gpu_type == gpu_type), reverse=True)
    request = job.request
    if not nodes or (request.types and gpu_type not in request.types):
        return None
    sizes = _sizes(job, sum(nodes[: request.max_nodes]))
    if not sizes:
        return None
    remaining, speed = job.remaining, job.speed
    if speed is not None and remaining is not None:
        rates = speed.rates(np.array([nodes_for(size, nodes) for size in sizes]), np.array(sizes), gpu_type)
        return Curve(sizes, np.nan_to_num(rates, nan=0.0, posinf=0.0), remaining.mean)
    return _declared(job, sizes)


def _declared(job: JobView, sizes: tuple[int, ...]) -> Curve:
    """Returns a curve of declared seconds: proportional up to the GPUs requested, which is a safe guess, then flat."""
    asked = max(job.request.workers, 1)
    rates = np.array([min(size / asked, 1.0) for size in sizes])
    declared_s = job.declared_s
    return Curve(sizes, rates, float("nan") if declared_s is None else declared_s)


def nodes_for(gpus: int, nodes: list[int]) -> int:
    """Returns on how few of these nodes, the largest first, so many GPUs stand."""
    for number, size in enumerate(nodes, start=1):
        gpus -= size
        if gpus <= 0:
            return number
    return max(len(nodes), 1)


def _sizes(job: JobView, reach: int) -> tuple[int, ...]:
    """Returns the powers of two within the job's limits, and its least size; for a rigid job what it asked for."""
    request = job.request
    if not has(job.abilities, Ability.RESIZE):
        return (request.workers,) if request.workers <= reach else ()
    least = max(request.min_workers, 1)
    most = min(max(request.max_workers, least), reach)
    if job.speed is not None:
        seen = max(_EXPLORE * job.speed.max_profiled, job.workers, least)
        most = min(most, seen, max(job.speed.max_useful, least))
    powers = {1 << bit for bit in range(most.bit_length())}
    held = {job.workers} if job.pinned else set()
    return tuple(sorted(size for size in powers | held | {least} if least <= size <= most))
