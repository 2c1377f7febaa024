"""Predicts a new job's speed, noise and work from similar past jobs, and tests that against its measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elastane.models.estimate import Estimate
from elastane.models.fitting import Observations, fit_throughput
from elastane.models.goodput import BatchLimits
from elastane.models.history.experience import NoisePoint
from elastane.models.history.work import WorkPrior
from elastane.models.throughput import ThroughputParams, scaled, times_s

_SLACK = 0.25
"""Relative error added to the speed of a job with similarity 0, beside the spread of its neighbours."""
_LIKELY_SCALE = math.log(2.5)
_LIKELY_SHAPE = 0.2
_SAME_SHAPE = 0.03
"""Differences (logarithms) smaller than this are measurement error."""
_SIGMAS = 3.0
_REACH = 2.0
"""A configuration is comparable up to this factor beyond the pooled ones."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Pooled configurations on one accelerator; ``spread`` is how much neighbours differ there, relatively."""

    rows: Observations
    spread: float

    def comparable(self, nodes: float, workers: float, per_gpu: float) -> bool:
        """Tells whether the pool has a configuration near enough to be compared with this one."""
        seen = self.rows
        low, high = float(seen.per_gpu.min()) / _REACH, float(seen.per_gpu.max()) * _REACH
        if not low <= per_gpu <= high:
            return False
        if workers <= 1:
            return True
        alike = seen.workers[(seen.workers > 1) & ((seen.nodes > 1) == (nodes > 1))]
        return bool(alike.size) and workers <= float(alike.max()) * _REACH


@dataclass(frozen=True, slots=True)
class ExpectedSpeed:
    """θ on one accelerator and its relative error: fit, differences between neighbours, and doubt together."""

    params: ThroughputParams[float]
    error: float
    shape_error: float
    """The part of ``error`` that one factor on all times would not remove."""

    def scaled(self, factor: float) -> ThroughputParams[float]:
        """Returns θ of a job that takes ``factor`` times as long for everything."""
        return scaled(self.params, factor)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A job's own times are ``factor`` times the pooled ones; ``trust`` falls from 1 as they differ beyond that."""

    factor: float = 1.0
    trust: float = 1.0


@dataclass(frozen=True, eq=False)
class Memory:
    """A prediction from ``neighbours`` past jobs, the nearest of them ``similarity`` alike."""

    remembered: Mapping[str, Remembered]
    noise: tuple[NoisePoint, ...]
    work: WorkPrior | None
    restart: Estimate | None
    neighbours: int
    similarity: float
    most_workers: int
    limits: BatchLimits | None = None
    """Batches that the nearest of them could use."""

    @cached_property
    def expected(self) -> Mapping[str, ExpectedSpeed]:
        """The fitted speed by accelerator, the best known first; fitted on first access."""
        kinds = list(self.remembered)
        fits = fit_throughput([self.remembered[kind].rows for kind in kinds])
        doubt = _SLACK * (1.0 - self.similarity)
        found = {}
        for kind, fit in zip(kinds, fits, strict=True):
            shape = math.hypot(_misfit(fit.params, self.remembered[kind].rows), doubt)
            error = math.hypot(shape, self.remembered[kind].spread)
            found[kind] = ExpectedSpeed(fit.params, error, shape)
        return found

    def noise_at(self, fraction: float) -> float | None:
        """Returns the gradient noise, in samples, expected when this fraction of the work is done; None if unknown."""
        if not self.noise:
            return None
        parts = [point.fraction for point in self.noise]
        return float(np.interp(fraction, parts, [point.noise for point in self.noise]))

    def remaining(self, done: float) -> Estimate | None:
        """Estimates the work left after ``done``; None if no neighbour finished."""
        return self.work.remaining(done) if self.work else None

    def total_work(self) -> Estimate | None:
        """Estimates the work from start to end; None if no neighbour finished."""
        return self.work.total() if self.work else None

    def compared(self, own: Mapping[str, Observations]) -> Comparison | None:
        """Compares the job's own times with the pooled ones.

        None when they contradict this memory by much more than its own error: either the factor is implausible, or
        the times differ even after it, so that the neighbours were the wrong ones.
        """
        logs, error, shape_error = self._differences(own)
        if not logs:
            return Comparison()
        factor = sum(logs) / len(logs)
        rest = math.sqrt(sum((each - factor) ** 2 for each in logs) / len(logs))
        if abs(factor) > max(_LIKELY_SCALE, _SIGMAS * error):
            return None
        if rest > max(_LIKELY_SHAPE, _SIGMAS * shape_error):
            return None
        return Comparison(math.exp(factor), 1.0 / (1.0 + (rest / max(shape_error, _SAME_SHAPE)) ** 2))

    def _differences(self, own: Mapping[str, Observations]) -> tuple[list[float], float, float]:
        """Returns ln(own ÷ pooled) of every comparable time, and the largest errors that apply."""
        logs: list[float] = []
        error = shape_error = 0.0
        for kind, seen in own.items():
            known, table = self.expected.get(kind), self.remembered.get(kind)
            if known is None or table is None:
                continue
            for nodes, workers, per_gpu, gradient_s, step_s in _rows(seen):
                if table.comparable(nodes, workers, per_gpu):
                    hoped = times_s(known.params, int(nodes), int(workers), int(per_gpu))
                    logs += [math.log(gradient_s / hoped[0]), math.log(step_s / hoped[1])]
                    error, shape_error = max(error, known.error), max(shape_error, known.shape_error)
        return logs, error, shape_error


def _misfit(theta: ThroughputParams[float], rows: Observations) -> float:
    """Returns the RMS relative error of step times, all configurations alike, corrected for seven fitted figures."""
    table = _rows(rows)
    square = sum(math.log(times_s(theta, int(n), int(k), int(m))[1] / t) ** 2 for n, k, m, _, t in table)
    return math.sqrt(square / max(len(table) - len(theta), 1))


def _rows(seen: Observations) -> Sequence[tuple[float, ...]]:
    columns = (seen.nodes, seen.workers, seen.per_gpu, seen.gradient_s, seen.step_s)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def joined(own: Observations, table: Remembered, factor: float, mass: float) -> Observations:
    """Joins own measurements (weight 1 each) with pooled ones times ``factor`` (weight ``mass`` in all).

    Configurations that the job itself has measured are not taken from the pool.
    """
    seen = {row[:3] for row in _rows(own)}
    rows = table.rows
    keep = np.array([row[:3] not in seen for row in _rows(rows)], dtype=bool)
    if not keep.any():
        return own
    weight = rows.weight if rows.weight is not None else np.ones(len(rows.nodes))
    return Observations(
        np.concatenate([own.nodes, rows.nodes[keep]]),
        np.concatenate([own.workers, rows.workers[keep]]),
        np.concatenate([own.per_gpu, rows.per_gpu[keep]]),
        np.concatenate([own.gradient_s, rows.gradient_s[keep] * factor]),
        np.concatenate([own.step_s, rows.step_s[keep] * factor]),
        np.concatenate([np.ones(len(own.nodes)), weight[keep] * (mass / weight[keep].sum())]),
    )
