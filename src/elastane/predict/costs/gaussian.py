"""Implements a Gaussian process with a Matérn-3/2 kernel, the regressor for the few hundred timings of a calibration.

Its variance grows with the distance from the measurements.  It is too slow beyond a few thousand rows; there ``trees``
takes over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from elastane.models.speed import FloatArray

MOST_ROWS = 600
SEARCHED = 160
LENGTHS = np.geomspace(0.2, 15.0, 9)
NOISES = np.geomspace(3e-3, 30.0, 14)
"""Ratios of noise variance to signal variance that are searched."""
LEAST_SPREAD = 0.05
LEAST_NOISE = 0.05
"""Least noise of a log time: no measurement repeats more closely, though a few rows may suggest it."""
_JITTER = 1e-8


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A fitted process around a ridge regression; ``rows`` are standardised features."""

    mean: FloatArray
    scale: FloatArray
    slopes: FloatArray
    rows: FloatArray
    weights: FloatArray
    factor: FloatArray
    signal: float
    length: float
    noise: float

    @classmethod
    def fit(
        cls, features: FloatArray, targets: FloatArray, like: GaussianProcess | None = None, ridge: float = 3.0
    ) -> GaussianProcess:
        """Fits a trend, then its residuals; hyper-parameters by marginal likelihood, or those of ``like``."""
        mean, scale = standard(features)
        rows = (features - mean) / scale
        design = np.hstack([rows, np.ones((len(rows), 1))])
        penalty = ridge * np.eye(design.shape[1])
        penalty[-1, -1] = 0.0
        slopes = np.asarray(np.linalg.solve(design.T @ design + penalty, design.T @ targets), np.float64)
        left = targets - design @ slopes
        gaps = _distances(rows, rows)
        signal, length, noise = (
            (like.signal, like.length, like.noise) if like else _search(gaps, left, rows.shape[1])
        )
        factor, _ = cho_factor(
            _kernel(gaps, signal, length) + (noise**2 + _JITTER) * np.eye(len(rows)), lower=True
        )
        weights = np.asarray(cho_solve((factor, True), left), np.float64)
        return cls(mean, scale, slopes, rows, weights, factor, signal, length, noise)

    def predict(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns mean and standard deviation of each row, noise included."""
        rows = (features - self.mean) / self.scale
        trend = np.hstack([rows, np.ones((len(rows), 1))]) @ self.slopes
        shared = _kernel(_distances(rows, self.rows), self.signal, self.length)
        explained = np.einsum("ij,ji->i", shared, np.asarray(cho_solve((self.factor, True), shared.T)))
        variance = np.maximum(self.signal**2 - explained, 0.0) + self.noise**2
        return np.asarray(trend + shared @ self.weights, np.float64), np.asarray(np.sqrt(variance), np.float64)


def standard(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns mean and scale of each column; one that hardly varied has scale 1.

    Divided by its tiny spread, the first operator that differs in it would lie thousands of spreads away.
    """
    spread = features.std(axis=0)
    scale = np.where(spread > LEAST_SPREAD, spread, 1.0)
    return np.asarray(features.mean(axis=0), np.float64), np.asarray(scale, np.float64)


def _search(gaps: FloatArray, targets: FloatArray, columns: int) -> tuple[float, float, float]:
    """Finds signal, length and noise of maximum marginal likelihood, on a subset of the rows.

    For each length one decomposition serves all ratios of noise to signal, and the best signal follows from both.
    """
    part = np.random.default_rng(0).permutation(len(targets))[:SEARCHED]
    gaps, targets = gaps[np.ix_(part, part)], targets[part]
    best = (np.inf, 1.0, 1.0, 1.0)
    for length in math.sqrt(columns) * LENGTHS:
        values, vectors = np.linalg.eigh(_kernel(gaps, 1.0, float(length)))
        squares = (vectors.T @ targets) ** 2
        for ratio in NOISES:
            spread = np.maximum(values, 0.0) + ratio
            signal = max(float(np.mean(squares / spread)), 1e-8)
            misfit = 0.5 * len(targets) * math.log(signal) + 0.5 * float(np.log(spread).sum())
            if misfit < best[0]:
                best = (misfit, math.sqrt(signal), float(length), max(math.sqrt(signal * ratio), LEAST_NOISE))
    return best[1:]


def _distances(one: FloatArray, other: FloatArray) -> FloatArray:
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)), np.float64)


def _kernel(gaps: FloatArray, signal: float, length: float) -> FloatArray:
    scaled = np.sqrt(3.0) * gaps / length
    return np.asarray(signal**2 * (1.0 + scaled) * np.exp(-scaled), np.float64)
