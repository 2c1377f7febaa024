"""Forecasts how many epochs a job still needs until its loss stops falling, from the loss curve so far (Optimus).

Fits l(k) = 1/(β0·k + β1) + β2 to curves of that shape, and says in a sentence why not for all others: loss
curves often plateau, jump or wander, and a confident guess about such a curve is worse than none.

====== ============================================================================================
k      epochs since the start, or since the last drop of the learning rate
l      loss divided by the largest loss seen, so that it starts near 1
β ≥ 0  rate of descent, start, and the floor the loss tends to
δ      decrease per epoch, as a share of the largest loss, below which the owner calls it converged
====== ============================================================================================

Reference: Peng et al., Optimus, EuroSys 2018, section 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares, minimize_scalar, nnls

from elastane.errors import ElastaneError
from elastane.models.estimate import Estimate, Provenance
from elastane.models.speed import FloatArray

LEAST_POINTS = 6
MOST_POINTS = 200
OUTLIER_EPOCHS = 5.0
PATIENCE_EPOCHS = 3

_SIDE = 3  # points averaged on either side of a suspected cliff
_LEAST_CLIFF = 0.03  # of the largest loss
_LEAST_RISE = 0.02  # of the largest loss
_LEAST_DESCENT = 1e-3  # of the largest loss
_MOST_MISFIT = 0.1  # residual over descent: beyond this the curve is mostly noise
_MOST_PATTERN = 0.5  # correlation of neighbouring residuals: beyond this the shape is another one
_PATTERN_MATTERS = 0.02  # residual over descent: below this a wrong shape does no harm
_MOST_DOUBT = 0.5  # standard error over the predicted epochs
_MAD_TO_STD = 1.4826


class Verdict(Enum):
    """Whether a loss curve supports a forecast."""

    TRUSTED = "trusted"
    NOT_CONVERGING = "not converging"
    CANNOT_TELL = "cannot tell"
    TOO_SHORT = "too short"


@dataclass(frozen=True, slots=True)
class LossCurve:
    """A fitted l(k) = 1/(β0·k + β1) + β2, with k counted from ``start`` epochs."""

    beta: tuple[float, float, float]
    start: float = 0.0

    def loss(self, epochs: FloatArray) -> FloatArray:
        """Normalised loss after so many epochs of the whole run."""
        rate, first, floor = self.beta
        return 1.0 / (rate * (epochs - self.start) + first) + floor

    def flat_from(self, delta: float) -> float:
        """The epoch from which l(k) − l(k+1) ≤ δ, not rounded and never before ``start``.

        With x = β0·k + β1 the decrease is β0 / (x·(x + β0)), so x = (√(β0² + 4·β0/δ) − β0) / 2.
        """
        rate, first, _ = self.beta
        if rate <= 0.0:
            return self.start
        x = (math.sqrt(rate * rate + 4.0 * rate / delta) - rate) / 2.0
        return self.start + max((x - first) / rate, 0.0)


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast from a loss curve; it has ``remaining_epochs`` only if the verdict is TRUSTED.

    ``converged`` is observed, not predicted.  ``since_epoch`` is where the part that was fitted begins.
    """

    verdict: Verdict
    reason: str
    converged: bool = False
    remaining_epochs: Estimate | None = None
    curve: LossCurve | None = None
    since_epoch: float = 0.0

    def interval_epochs(self, z: float = 1.645) -> tuple[float, float] | None:
        """Returns an interval of the remaining epochs, 90 % by default; None without a forecast."""
        if self.remaining_epochs is None:
            return None
        low, high = self.remaining_epochs.interval(z)
        return max(low, 0.0), max(high, 0.0)


def forecast(epochs: Sequence[float], losses: Sequence[float], delta: float = 0.02) -> Forecast:
    """Judge a loss curve and, if it can be trusted, predict the epochs until its decrease stays below δ.

    ``epochs`` increase strictly and may be fractions.  Before any fit: points that are not finite are
    dropped, long series averaged, losses normalised, and what precedes a learning-rate drop cut off.
    """
    k, raw = _checked(epochs, losses, delta)
    finite = np.isfinite(raw)
    if raw.size and not finite[-_SIDE:].all():
        return Forecast(Verdict.NOT_CONVERGING, "The latest losses are not finite numbers.")
    k, loss = _thinned(k[finite], raw[finite])
    if len(k) < LEAST_POINTS:
        return Forecast(Verdict.TOO_SHORT, f"Only {len(k)} losses so far; a fit needs {LEAST_POINTS}.")
    cleaned = without_outliers(k, loss)
    top = float(cleaned.max())
    if cleaned.min() < 0.0 or top <= 0.0:
        return Forecast(Verdict.CANNOT_TELL, "The loss falls below 0, so the curve's floor cannot hold it.")
    done = converged(epochs, losses, delta)
    cliff = last_cliff(cleaned / top)
    k, loss = k[cliff:], loss[cliff:] / top
    if len(k) < LEAST_POINTS:
        reason = f"The loss dropped at epoch {k[0]:g} and only {len(k)} losses followed."
        return Forecast(Verdict.TOO_SHORT, reason, done, since_epoch=float(k[0]))
    return _judged(k, loss, delta, done, start=float(k[0]) if cliff else 0.0)


def converged(
    epochs: Sequence[float], losses: Sequence[float], delta: float = 0.02, patience: int = PATIENCE_EPOCHS
) -> bool:
    """Whether the mean loss of an epoch changed by less than δ in each of the last ``patience`` epochs.

    A rise counts as a change too: diverging is not converging.
    """
    k, loss = _binned(*_checked(epochs, losses, delta), np.floor(np.asarray(epochs, np.float64)))
    if len(k) <= patience or not np.isfinite(loss).all():
        return False
    top = float(np.abs(loss).max())
    slopes = np.abs(np.diff(loss[-patience - 1 :])) / np.diff(k[-patience - 1 :])
    return bool((slopes < delta * top).all())


def fit_curve(epochs: FloatArray, losses: FloatArray, start: float = 0.0) -> LossCurve:
    """Fits the curve nearest to normalised losses, β ≥ 0.

    For a fixed floor β2 < min l the rest is linear: 1/(l − β2) = β0·k + β1, by non-negative least squares with
    rows weighted by (l − β2)², which turns errors of 1/(l − β2) back into errors of the loss.  The floor is
    found by a search in one dimension.  A last polish lets the floor rise above losses that noise pushed low.
    """
    k = epochs - start

    def at(floor: float) -> tuple[float, float, float]:
        gap = losses - floor
        rows = np.stack([k * gap**2, gap**2], axis=1)
        (rate, first), _ = nnls(rows, gap)
        # At the far end of the search all weight may vanish; a start of 0 would put a pole into the curve.
        return float(rate), max(float(first), 1e-6), floor

    def misfits(beta: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (beta[0] * k + beta[1]) + beta[2] - losses, np.float64)

    def squares(floor: float) -> float:
        return float(np.sum(misfits(np.array(at(floor))) ** 2))

    low = float(losses.min())
    grid = low * (1.0 - np.geomspace(1.0, 1e-3, 24))
    best = int(np.argmin([squares(float(floor)) for floor in grid]))
    bounds = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    floor = float(minimize_scalar(squares, bounds=bounds, method="bounded").x)
    polished = least_squares(misfits, at(floor), bounds=([0.0, 1e-6, 0.0], np.inf), x_scale="jac")
    rate, first, base = (float(value) for value in polished.x)
    return LossCurve((rate, first, base), start)


def without_outliers(epochs: FloatArray, losses: FloatArray) -> FloatArray:
    """Losses with each outlier replaced by the mean of its neighbours.

    An outlier is above everything in the five epochs before it, or below everything in the five after it.
    """
    cleaned = losses.copy()
    for i in range(1, len(losses) - 1):
        before = losses[:i][epochs[:i] >= epochs[i] - OUTLIER_EPOCHS]
        after = losses[i + 1 :][epochs[i + 1 :] <= epochs[i] + OUTLIER_EPOCHS]
        too_high = before.size > 0 and losses[i] > before.max()
        if too_high or (after.size > 0 and losses[i] < after.min()):
            cleaned[i] = (losses[i - 1] + losses[i + 1]) / 2.0
    return cleaned


def _judged(k: FloatArray, loss: FloatArray, delta: float, done: bool, start: float) -> Forecast:
    """Judges the part of a curve that follows its last cliff (or its start)."""
    cleaned = without_outliers(k, loss)
    curve = fit_curve(k, cleaned, start)
    # Cleaning hides part of the noise, and a lone spike is not noise: hence a robust spread of the raw loss.
    residuals = loss - curve.loss(k)
    spread = _MAD_TO_STD * float(np.median(np.abs(residuals)))
    noise = max(spread, float(np.sqrt(np.mean((cleaned - curve.loss(k)) ** 2))))
    remaining = _remaining(curve, k, delta, noise)
    objection = _rising(cleaned) or _misshapen(curve, k, residuals, noise, delta)
    if objection is None and np.abs(residuals[-2:]).max() > max(6.0 * spread, _LEAST_CLIFF):
        objection = Verdict.CANNOT_TELL, "The latest losses left the curve; whether for good is not yet clear."
    reach = max(curve.flat_from(delta) - start, 1.0)
    if objection is None and remaining.mean > 0.0 and remaining.std > _MOST_DOUBT * reach:
        epochs = f"{remaining.mean:.0f} ± {remaining.std:.0f} epochs"
        objection = Verdict.CANNOT_TELL, f"Too early: the fit cannot say more than {epochs}."
    if objection is not None:
        return Forecast(*objection, converged=done, curve=curve, since_epoch=start)
    since = f"Since its drop at epoch {start:g} the" if start else "The"
    reason = f"{since} loss follows the fitted curve to within {noise:.1%} of its largest value."
    return Forecast(Verdict.TRUSTED, reason, done, remaining, curve, start)


def _rising(cleaned: FloatArray) -> tuple[Verdict, str] | None:
    """Objects if the latest third of the losses lies above the one before it, by more than chance."""
    third = max(len(cleaned) // 3, 2)
    rise = float(cleaned[-third:].mean() - cleaned[-2 * third : -third].mean())
    if rise > _LEAST_RISE and rise > 3.0 * _local_noise(cleaned) * math.sqrt(2.0 / third):
        return Verdict.NOT_CONVERGING, f"The loss is rising: lately by {rise:.1%} of its largest value."
    return None


def _misshapen(
    curve: LossCurve, k: FloatArray, residuals: FloatArray, noise: float, delta: float
) -> tuple[Verdict, str] | None:
    """Objects if the losses do not have the shape of the model; None if they do."""
    ends = curve.loss(k[[0, -1]])
    descent = float(ends[0] - ends[1])
    if descent <= max(2.0 * noise, _LEAST_DESCENT):
        # Flat after a drop is an end; flat from the first epoch on may as well be a slow start.
        if curve.start > 0.0 and noise <= delta:
            return None
        return Verdict.CANNOT_TELL, "The loss has not fallen by more than its noise."
    misfit = noise / descent
    if misfit > _MOST_MISFIT:
        return Verdict.CANNOT_TELL, f"The loss wanders about the fitted curve by {misfit:.0%} of its descent."
    pattern = float(np.sum(residuals[1:] * residuals[:-1]) / np.sum(residuals**2))
    if misfit > _PATTERN_MATTERS and pattern > _MOST_PATTERN:
        return Verdict.CANNOT_TELL, "The loss falls, but not in the shape of 1/k."
    return None


def _remaining(curve: LossCurve, k: FloatArray, delta: float, noise: float) -> Estimate:
    """Epochs from the last point to ``flat_from``, with the error that noise puts into β (delta method)."""
    rate, first, _ = curve.beta
    mean = max(curve.flat_from(delta) - float(k[-1]), 0.0)
    if rate <= 0.0:
        return Estimate(mean, 0.0, len(k), Provenance.FITTED)
    since = k - curve.start
    slope = -1.0 / (rate * since + first) ** 2
    jacobian = np.stack([slope * since, slope, np.ones_like(k)], axis=1)
    root = math.sqrt(rate * rate + 4.0 * rate / delta)
    by_rate = ((rate + 2.0 / delta) / root - 1.0) / (2.0 * rate) - ((root - rate) / 2.0 - first) / rate**2
    gradient = np.array([by_rate, -1.0 / rate, 0.0])
    variance = float(gradient @ np.linalg.pinv(jacobian.T @ jacobian) @ gradient) * noise**2
    return Estimate(mean, math.sqrt(max(variance, 0.0)), len(k), Provenance.FITTED)


def last_cliff(loss: FloatArray) -> int:
    """Index of the first point after the last sudden and lasting drop; 0 without one.

    A curve of 1/k never falls faster than it just did.  A drop counts if the means on its two sides differ by
    twice as much as those before it did, and by far more than noise explains.
    """
    threshold = 5.0 * math.sqrt(2.0) * _local_noise(loss)  # √2: noise of the difference of the two differences
    found, depth, last = 0, 0.0, 0
    for i in range(2 * _SIDE, len(loss) - _SIDE + 1):
        older, before, after = (float(loss[i + j * _SIDE : i + (j + 1) * _SIDE].mean()) for j in (-2, -1, 0))
        drop, usual = before - after, max(older - before, 0.0)
        if drop <= max(2.0 * usual, usual + threshold, _LEAST_CLIFF):
            continue
        if drop > depth or i > last + 1:  # the steepest of neighbouring places; a later cliff replaces it
            found, depth = i, drop
        last = i
    return found


def _local_noise(loss: FloatArray) -> float:
    """Standard deviation of the noise, from second differences, which a smooth curve hardly has."""
    return _MAD_TO_STD * float(np.median(np.abs(np.diff(loss, 2)))) / math.sqrt(6.0)


def _thinned(k: FloatArray, loss: FloatArray) -> tuple[FloatArray, FloatArray]:
    """At most ``MOST_POINTS`` points, each the mean of its share of the series."""
    if len(k) <= MOST_POINTS:
        return k, loss
    return _binned(k, loss, np.arange(len(k)) * MOST_POINTS // len(k))


def _binned(k: FloatArray, loss: FloatArray, label: ArrayLike) -> tuple[FloatArray, FloatArray]:
    _, first, counts = np.unique(label, return_index=True, return_counts=True)
    if not len(first):
        return k, loss
    return np.add.reduceat(k, first) / counts, np.add.reduceat(loss, first) / counts


def _checked(epochs: Sequence[float], losses: Sequence[float], delta: float) -> tuple[FloatArray, FloatArray]:
    k, loss = np.asarray(epochs, np.float64), np.asarray(losses, np.float64)
    if k.shape != loss.shape or k.ndim != 1 or not (np.diff(k) > 0.0).all():
        raise ValueError("a loss curve is one loss per epoch, with epochs strictly increasing")
    if not 0.0 < delta < 1.0:
        raise ElastaneError(f"the convergence threshold must lie between 0 and 1, not {delta}")
    return k, loss
