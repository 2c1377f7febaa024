"""Records what one job, finished or running, measured: its speed, gradient noise, total work and restart time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from elastane.models.goodput import BatchLimits
from elastane.models.history.signature import Signature

MOST_TIMINGS = 12
"""Configurations kept per accelerator: enough to fit seven parameters well."""
MOST_NOISE_POINTS = 12


class Timing(NamedTuple):
    """Seconds per pass without and with synchronisation in one configuration, a mean of ``times`` measurements."""

    nodes: int
    workers: int
    per_gpu: int
    gradient_s: float
    step_s: float
    times: int = 1


class NoisePoint(NamedTuple):
    """Gradient noise scale, in samples, when this part of the work was done."""

    fraction: float
    noise: float


@dataclass(frozen=True, slots=True)
class Experience:
    """The measurements of one job, from which predictions for similar ones are made.

    ``timings`` are by accelerator type.  ``total_work`` is in samples worth as much as at the owner's batch; None
    for a job that has not finished its work.  A ``shared`` one may be read by every tenant.
    """

    id: str
    signature: Signature
    timings: Mapping[str, tuple[Timing, ...]] = field(default_factory=dict)
    noise: tuple[NoisePoint, ...] = ()
    total_work: float | None = None
    restart_s: float | None = None
    outcome: str = "finished"
    finished_at_s: float = 0.0
    shared: bool = False
    limits: BatchLimits | None = None
    """Batches it could use, where that is not known before a job runs."""

    def __post_init__(self) -> None:
        for timing in (each for rows in self.timings.values() for each in rows):
            if min(timing.nodes, timing.workers, timing.per_gpu, timing.times) < 1:
                raise ValueError(
                    f"nodes, workers, samples per GPU and times are 1 or more, not {tuple(timing)}"
                )
            if not (0.0 < timing.gradient_s < math.inf and 0.0 < timing.step_s < math.inf):
                raise ValueError(f"seconds per pass are above 0 and finite, not {tuple(timing)}")
        for point in self.noise:
            if not (0.0 <= point.fraction <= 1.0 and 0.0 <= point.noise < math.inf):
                raise ValueError(f"a noise point is (part of the work, noise from 0 up), not {tuple(point)}")
        if self.total_work is not None and not 0.0 < self.total_work < math.inf:
            raise ValueError(f"total work is above 0 and finite, not {self.total_work}")
        if self.restart_s is not None and not 0.0 <= self.restart_s < math.inf:
            raise ValueError(f"restart seconds are 0 or more and finite, not {self.restart_s}")

    @property
    def tenant(self) -> str:
        """The tenant that the job belonged to."""
        return self.signature.tenant

    @property
    def most_workers(self) -> int:
        """The largest number of workers it was measured with; 0 if never."""
        return max((timing.workers for rows in self.timings.values() for timing in rows), default=0)


def merged(old: Experience, new: Experience) -> Experience:
    """Merges two records of the same job; where they differ the newer one counts."""
    timings = {
        kind: thinned([*new.timings.get(kind, ()), *old.timings.get(kind, ())])
        for kind in sorted({*old.timings, *new.timings})
    }
    total = new.total_work if new.total_work is not None else old.total_work
    return replace(
        new,
        timings=timings,
        noise=new.noise or old.noise,
        total_work=total,
        outcome=new.outcome if new.total_work is not None or old.total_work is None else old.outcome,
    )


def thinned(timings: Iterable[Timing], most: int = MOST_TIMINGS) -> tuple[Timing, ...]:
    """Selects at most ``most`` timings, far from each other; of equal configurations the first is kept."""
    distinct: dict[tuple[int, int, int], Timing] = {}
    for timing in timings:
        distinct.setdefault(timing[:3], timing)
    rows = [distinct[key] for key in sorted(distinct)]
    return tuple(rows[i] for i in spread_out(rows, most))


def spread_out(timings: Sequence[Timing], most: int) -> list[int]:
    """Returns indices of at most ``most`` configurations that cover all others best (farthest-point selection)."""
    if len(timings) <= most:
        return list(range(len(timings)))
    shape = np.array([timing[:3] for timing in timings], dtype=np.float64)
    # Several nodes are another regime than one: farther apart than any two sizes next to each other.
    where = np.column_stack([2.0 * (shape[:, 0] > 1), np.log2(shape[:, 1]), 0.7 * np.log2(shape[:, 2])])
    chosen = [0]
    distance = np.abs(where - where[0]).sum(axis=1)
    while len(chosen) < most:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.abs(where - where[chosen[-1]]).sum(axis=1))
    return sorted(chosen)


class NoisePath:
    """Collects a job's gradient noise over its work; however long it runs, only two dozen points are kept."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._seen, self._stride = 0, 1

    def add(self, done: float, noise: float) -> None:
        """Takes in the noise, in samples, measured when ``done`` work was done."""
        if self._seen % self._stride == 0 and math.isfinite(noise):
            self._points.append((done, noise))
            if len(self._points) >= 2 * MOST_NOISE_POINTS:
                del self._points[1::2]
                self._stride *= 2
        self._seen += 1

    def points(self, total: float) -> tuple[NoisePoint, ...]:
        """Returns the noise over fractions of ``total`` work, in order."""
        if total <= 0.0:
            return ()
        kept = sorted(self._points)
        step = -(-len(kept) // MOST_NOISE_POINTS) if kept else 1
        return tuple(NoisePoint(min(done / total, 1.0), noise) for done, noise in kept[::step])
