"""Models the steps per second of a job with parameter servers, as a function of servers and workers (Optimus).

Both models are linear once the speed is inverted, so a non-negative least-squares fit finds the coefficients:

    async   f(p, w) = w / (θ0 + θ1·w/p + θ2·w + θ3·p)
    sync    f(p, w) = 1 / (θ0·M/w + θ1 + θ2·w/p + θ3·w + θ4·p)

====== ==========================================================================================
f      training steps per second, of all workers together when asynchronous
p, w   parameter servers, workers
M      samples in one synchronous step, over all workers; fixed
θ ≥ 0  time of one sample, fixed time, transfer and update, overhead per worker, overhead per server
====== ==========================================================================================

Reference: Peng et al., Optimus, EuroSys 2018, section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from elastane.errors import ElastaneError
from elastane.models.estimate import Estimate, Provenance
from elastane.models.speed import FloatArray

TYPICAL_ERROR = 0.1
"""Relative error the paper reports for this model; what a fit without spare points is trusted to."""

PRE_RUNS = 5
"""Short runs per new job in the paper's evaluation."""

Pair = tuple[int, int]


class Updates(Enum):
    """How workers update the model."""

    ASYNC = "async"
    SYNC = "sync"

    @property
    def least_pairs(self) -> int:
        """Different (p, w) pairs needed before anything is fitted: one per coefficient."""
        return 5 if self is Updates.SYNC else 4


@dataclass(frozen=True, slots=True)
class SpeedSample:
    """A measured speed, from a pre-run or from the real one."""

    servers: int
    workers: int
    steps_per_s: float

    def __post_init__(self) -> None:
        if self.servers < 1 or self.workers < 1 or not 0.0 < self.steps_per_s < float("inf"):
            raise ValueError(f"not a measured parameter-server speed: {self}")


@dataclass(frozen=True)
class ParameterServerSpeed:
    """Measured pairs, and the fitted curve between and beyond them (``theta`` empty: too few pairs).

    ``error`` is the relative error of one prediction at the centre of the data; ``covariance`` (of θ, for
    relative error 1) makes it grow with the distance from the data.
    """

    updates: Updates
    batch: float
    measured: Mapping[Pair, Estimate] = field(default_factory=dict)
    theta: tuple[float, ...] = ()
    error: float = TYPICAL_ERROR
    covariance: FloatArray = field(default_factory=lambda: np.zeros((0, 0)), compare=False)

    def predict(self, servers: int, workers: int) -> Estimate | None:
        """Steps per second; what was measured if it was, else the curve; None while neither is known."""
        known = self.measured.get((servers, workers))
        if known is not None or not self.theta:
            return known
        row = _rows(self.updates, self.batch, servers, workers)
        speed = 1.0 / float(row @ np.array(self.theta))
        leverage = float(row @ self.covariance @ row) * speed**2
        std = speed * self.error * (1.0 + leverage) ** 0.5
        return Estimate(speed, std, len(self.measured), Provenance.FITTED)

    def rates(self, servers: ArrayLike, workers: ArrayLike) -> FloatArray:
        """Fitted steps per second for arrays of pairs, measured pairs included; nan before the first fit."""
        p, w = np.broadcast_arrays(np.asarray(servers, np.int64), np.asarray(workers, np.int64))
        speeds = np.full(p.shape, np.nan)
        if self.theta:
            speeds = np.array(1.0 / (_rows(self.updates, self.batch, p, w) @ np.array(self.theta)))
        for (servers_at, workers_at), speed in self.measured.items():
            speeds[(p == servers_at) & (w == workers_at)] = speed.mean
        return speeds


def fit_speed(updates: Updates, batch: float, samples: Iterable[SpeedSample]) -> ParameterServerSpeed:
    """Fit the model to all samples; each pair counts once, however often it was measured.

    Rows are weighted by the measured speed, so that the relative error of the speed is what gets small.
    """
    if not batch > 0.0:
        raise ElastaneError(f"the batch size must be above 0, not {batch}")
    measured = _measured(samples)
    if len(measured) < updates.least_pairs:
        return ParameterServerSpeed(updates, batch, measured)
    p, w = np.array(list(measured), dtype=np.float64).T
    speeds = np.array([speed.mean for speed in measured.values()])
    rows = _rows(updates, batch, p, w) * speeds[:, None]
    # Columns differ by orders of magnitude (M/w against 1); equal norms keep the solver well conditioned.
    norms = np.linalg.norm(rows, axis=0)
    design = rows / norms
    scaled, residual_norm = nnls(design, np.ones(len(rows)))
    spare = len(rows) - int((scaled > 0.0).sum())
    # The typical error enters as one observation: a fit through five points is never called exact.
    error = ((TYPICAL_ERROR**2 + residual_norm**2) / (1 + spare)) ** 0.5
    # No scaled coefficient exceeds about √n; this prior keeps directions without data finite, yet wide.
    prior = np.eye(len(norms)) * error**2 / len(rows)
    covariance = np.linalg.inv(design.T @ design + prior) / np.outer(norms, norms)
    theta = tuple(float(value) for value in scaled / norms)
    return ParameterServerSpeed(updates, batch, measured, theta, float(error), covariance)


def pre_run_pairs(max_servers: int, max_workers: int, count: int = PRE_RUNS) -> tuple[Pair, ...]:
    """Selects (p, w) pairs to try on a new job: (1, 1), then always the pair farthest from those chosen.

    Distance is taken in ratios (logarithms), because speed bends most at small counts: the first four
    are the corners, the fifth lies near their middle.  Fewer come back where fewer exist.
    """
    if max_servers < 1 or max_workers < 1 or count < 1:
        raise ElastaneError(
            f"pre-runs need at least one server, worker and run, not {max_servers}, {max_workers}, {count}"
        )
    grid = [(p, w) for p in range(1, max_servers + 1) for w in range(1, max_workers + 1)]
    # Each axis in units of its own length, or the longer one would take all the points.
    axes = [max(float(np.log(most)), 1e-9) for most in (max_servers, max_workers)]
    points = np.log(np.array(grid, dtype=np.float64)) / axes
    nearest = np.linalg.norm(points - points[0], axis=1)
    chosen = [grid[0]]
    while len(chosen) < min(count, len(grid)):
        best = int(np.argmax(nearest))
        chosen.append(grid[best])
        nearest = np.minimum(nearest, np.linalg.norm(points - points[best], axis=1))
    return tuple(chosen)


def _rows(updates: Updates, batch: float, servers: ArrayLike, workers: ArrayLike) -> FloatArray:
    """The factors of θ in 1/f, last axis over θ."""
    p, w = np.asarray(servers, np.float64), np.asarray(workers, np.float64)
    one = np.ones(np.broadcast_shapes(p.shape, w.shape))
    if updates is Updates.SYNC:
        return np.stack([batch / w * one, one, w / p, w * one, p * one], axis=-1)
    return np.stack([one / w, one / p, one, p / w], axis=-1)


def _measured(samples: Iterable[SpeedSample]) -> dict[Pair, Estimate]:
    by_pair: dict[Pair, list[float]] = {}
    for sample in samples:
        by_pair.setdefault((sample.servers, sample.workers), []).append(sample.steps_per_s)
    return {pair: _mean(speeds) for pair, speeds in sorted(by_pair.items())}


def _mean(speeds: list[float]) -> Estimate:
    values = np.array(speeds)
    std = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0
    return Estimate(float(values.mean()), std, len(values), Provenance.PROFILED)
