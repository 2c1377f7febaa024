"""Gives idle GPUs to jobs: first to those without any, then where they cost the least additional GPU time."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from elastane.policies.elasticflow.curves import Curve


@dataclass(frozen=True)
class Grower:
    """A job that may get more, with its curve on each type it may use; ``rank`` breaks ties."""

    id: str
    curves: Mapping[str, Curve]
    rank: int


def share_out(growers: list[Grower], given: dict[str, tuple[str, int]], free: dict[str, int]) -> None:
    """Raises sizes in ``given`` (type, GPUs) one level at a time, and takes the GPUs out of ``free``.

    A step is worth (GPU time after − GPU time before) ÷ additional GPUs, the less the better; one that does not make
    the job faster is not made.
    """
    heap = [step for job in growers for step in _steps(job, given.get(job.id))]
    heapq.heapify(heap)
    jobs = {job.id: job for job in growers}
    while heap:
        *_, job_id, kind, size, extra = heapq.heappop(heap)
        held = given.get(job_id)
        before = held[1] if held else 0
        if (held is not None and held[0] != kind) or size - before != extra:
            continue  # it has had another step since
        if extra > free[kind]:
            continue
        free[kind] -= extra
        given[job_id] = (kind, size)
        for step in _steps(jobs[job_id], given[job_id]):
            heapq.heappush(heap, step)


_Step = tuple[bool, float, int, str, str, int, int]


def _steps(job: Grower, held: tuple[str, int] | None) -> list[_Step]:
    """Returns the next step on the type it has, or the first step on any."""
    kinds = job.curves if held is None else {held[0]: job.curves[held[0]]}
    size = held[1] if held else 0
    return [step for kind, curve in kinds.items() if (step := _step(job, kind, curve, size)) is not None]


def _step(job: Grower, kind: str, curve: Curve, size: int) -> _Step | None:
    """Returns the next larger size that is faster; None without one."""
    bigger = next((to for to in curve.sizes if to > size), None)
    if bigger is None or curve.rate(bigger) <= curve.rate(size):
        return None
    before = curve.gpu_s(size) if size else 0.0
    price = (curve.gpu_s(bigger) - before) / (bigger - size)
    return (size > 0, price, job.rank, job.id, kind, bigger, bigger - size)
