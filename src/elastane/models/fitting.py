"""Fitting θ online, many jobs in one vectorised call (Pollux, OSDI'21, §4.1 and its released priors).

Minimised per job, over every distinct (N, K, m) observed, each counted once:

    RMS[ln T̂_grad − ln T_grad] + RMS[ln T̂_iter − ln T_iter]
      + 1e-3·(γ−1)² + 1e-2·[(β_n/α_n)² + (β_r/α_r)²]

Parameters that the data cannot tell are pinned at their optimistic end, so that a job is tried on more GPUs
until proven otherwise.  Method: Levenberg–Marquardt on (ln α, ln β, γ) with analytic derivatives; the RMS
terms, which are not sums of squares, are majorised by weighting squares with 1/(2·RMS) at each iterate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray
from elastane.models.throughput import TINY_S, ThroughputParams

_START = np.array([np.log(0.1), np.log(0.01)] * 3 + [1.001])
_LOWER = np.array([np.log(TINY_S)] * 6 + [1.0])
_UPPER = np.array([np.log(1e6)] * 6 + [10.0])
_GAMMA_PENALTY, _SLOPE_PENALTY = 1e-3, 1e-2
_RMS_FLOOR = 1e-3  # below a tenth of a per cent, errors are all alike
_PATIENCE = 2  # accepted steps without a gain worth having before a job is left alone
_MOST_DAMPING = 1e2  # steps this short that still gain nothing count as well
_INTER_NODE_PRIOR = 1.1  # several nodes are believed at least this much slower than one


@dataclass(frozen=True, slots=True)
class Observations:
    """Distinct configurations of one job with their measured times (arrays of equal length).

    ``weight`` says how much each counts; None: all alike.
    """

    nodes: FloatArray
    workers: FloatArray
    per_gpu: FloatArray
    gradient_s: FloatArray
    step_s: FloatArray
    weight: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """θ with the RMS relative error of the step times it explains."""

    params: ThroughputParams[float]
    relative_error: float
    count: int


def fit_throughput(
    observed: Sequence[Observations], starts: Sequence[ThroughputParams[float] | None] | None = None
) -> list[Fit]:
    """Fit every job; ``starts`` (earlier fits) only make it faster."""
    if not observed:
        return []
    data = _Batch(observed)
    x = np.tile(_START, (len(observed), 1))
    for row, start in enumerate(starts or ()):
        if start is not None:
            x[row] = np.clip(_encode(start), _LOWER, _UPPER)
            x[row, :2] = np.where(np.isfinite(x[row, :2]), x[row, :2], _START[:2])
    x, free = _pin(data, x)
    x = _levenberg_marquardt(data, x, free)
    step_rms = data.rms(data.evaluate(x).error)[:, 1]
    x = _inter_node_prior(data, x)
    return [
        Fit(_decode(row), float(error), len(obs.nodes))
        for row, error, obs in zip(x, step_rms, observed, strict=True)
    ]


def _encode(theta: ThroughputParams[float]) -> FloatArray:
    return np.array([*np.log(np.maximum(np.array(theta[:6]), TINY_S)), theta.gamma])


def _decode(x: FloatArray) -> ThroughputParams[float]:
    return ThroughputParams._make([*np.exp(x[:6]).tolist(), float(x[6])])


@dataclass(slots=True)
class _Terms:
    """Errors of ln T_grad and ln T_iter, and their derivatives: (jobs, 2, rows) and (jobs, 2, rows, 7)."""

    error: FloatArray
    jacobian: FloatArray


class _Batch:
    """Observations of several jobs, padded to one rectangle; absent rows have weight 0."""

    def __init__(self, observed: Sequence[Observations]) -> None:
        rows = max(len(obs.nodes) for obs in observed)

        def padded(name: str, fill: float) -> FloatArray:
            out = np.full((len(observed), rows), fill)
            for row, obs in enumerate(observed):
                values = getattr(obs, name)
                out[row, : len(values)] = values
            return out

        self.nodes, self.workers = padded("nodes", 1.0), padded("workers", 1.0)
        self.per_gpu = padded("per_gpu", 1.0)
        self.log_gradient, self.log_step = np.log(padded("gradient_s", 1.0)), np.log(padded("step_s", 1.0))
        self.gradient_s = padded("gradient_s", 0.0)
        self.count = np.array([len(obs.nodes) for obs in observed], dtype=np.float64)
        self.weight = (np.arange(rows) < self.count[:, None]) / self.count[:, None]
        for row, obs in enumerate(observed):
            if obs.weight is not None:
                self.weight[row, : len(obs.weight)] = obs.weight / obs.weight.sum()
        self.inter = (self.nodes > 1) & (self.workers > 1)
        self.intra = (self.nodes == 1) & (self.workers > 1)
        self.beyond_two = np.maximum(self.workers - 2.0, TINY_S)

    def rms(self, error: FloatArray) -> FloatArray:
        """Root mean square of both kinds of error: (jobs, 2)."""
        out: FloatArray = np.sqrt(np.einsum("jr,jkr,jkr->jk", self.weight, error, error))
        return out

    def evaluate(self, x: FloatArray) -> _Terms:
        """Errors and analytic derivatives with respect to (ln α, ln β, …, γ)."""
        ac, bc, an, bn, ar, br = np.exp(x[:, :6]).T[:, :, None]
        gamma = x[:, 6:7]
        slope_part = bc * self.per_gpu
        gradient = ac + slope_part
        alpha = np.where(self.inter, an, ar)
        beta = np.where(self.inter, bn, br) * self.beyond_two
        alone = self.workers <= 1
        sync = np.where(alone, TINY_S, alpha + beta)
        log_gradient, log_sync = np.log(gradient), np.log(sync)
        ratio = np.exp(np.minimum(gamma * (log_sync - log_gradient), 600.0))
        log_step = log_gradient + np.log1p(ratio) / gamma
        in_gradient = 1.0 / (1.0 + ratio)  # ∂ln T_iter / ∂ln T_grad
        in_sync = np.where(alone, 0.0, 1.0 - in_gradient) / sync
        error = np.empty((len(x), 2, self.nodes.shape[1]))
        error[:, 0] = log_gradient - self.log_gradient
        error[:, 1] = log_step - self.log_step
        jacobian = np.zeros((*error.shape, 7))
        jacobian[:, 0, :, 0] = ac / gradient
        jacobian[:, 0, :, 1] = slope_part / gradient
        jacobian[:, 1, :, :2] = jacobian[:, 0, :, :2] * in_gradient[..., None]
        alpha_part, beta_part = in_sync * alpha, in_sync * beta
        jacobian[:, 1, :, 2] = self.inter * alpha_part
        jacobian[:, 1, :, 3] = self.inter * beta_part
        jacobian[:, 1, :, 4] = self.intra * alpha_part
        jacobian[:, 1, :, 5] = self.intra * beta_part
        mixed = in_gradient * log_gradient + (1.0 - in_gradient) * log_sync
        jacobian[:, 1, :, 6] = (mixed - log_step) / gamma
        return _Terms(error, jacobian)


def _pin(data: _Batch, x: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Fix what the data cannot identify at its optimistic end; returns the start and which entries are free."""
    free = np.ones(x.shape, dtype=bool)
    real = data.weight > 0
    first = data.per_gpu[:, :1]
    one_batch = np.all((data.per_gpu == first) | ~real, axis=1)
    mean_gradient = data.gradient_s.sum(axis=1) / data.count
    x[:, 0] = np.where(one_batch, np.log(mean_gradient / 2.0), x[:, 0])
    free[:, 0] &= ~one_batch
    never_inter = ~np.any(data.inter & real, axis=1)
    never_intra = ~np.any(data.intra & real, axis=1)
    never_three = ~np.any((data.workers > 2) & real, axis=1)
    for column, unknown in (
        (2, never_inter),
        (3, never_inter | never_three),
        (4, never_intra),
        (5, never_intra | never_three),
    ):
        x[:, column] = np.where(unknown, _LOWER[column], x[:, column])
        # A start taken from an earlier fit may sit at that bound although data have since arrived.
        stuck = ~unknown & (x[:, column] <= _LOWER[column] + 1e-6)
        x[:, column] = np.where(stuck, _START[column], x[:, column])
        free[:, column] &= ~unknown
    return x, free


def _objective(data: _Batch, x: FloatArray, terms: _Terms) -> FloatArray:
    slopes = np.exp(2.0 * (x[:, 3] - x[:, 2])) + np.exp(2.0 * (x[:, 5] - x[:, 4]))
    penalty = _GAMMA_PENALTY * (x[:, 6] - 1.0) ** 2 + _SLOPE_PENALTY * slopes
    out: FloatArray = data.rms(terms.error).sum(axis=1) + penalty
    return out


def _normal_equations(data: _Batch, x: FloatArray, terms: _Terms) -> tuple[FloatArray, FloatArray]:
    """Gauss–Newton matrix and gradient of the majorised objective (up to a factor of two)."""
    weight = data.weight[:, None, :] / (2.0 * np.maximum(data.rms(terms.error), _RMS_FLOOR))[:, :, None]
    flat = terms.jacobian.reshape(len(x), -1, 7)
    weighted = flat * weight.reshape(len(x), -1, 1)
    matrix = np.swapaxes(weighted, 1, 2) @ flat
    vector = np.einsum("jrp,jr->jp", weighted, terms.error.reshape(len(x), -1))
    matrix[:, 6, 6] += _GAMMA_PENALTY
    vector[:, 6] += _GAMMA_PENALTY * (x[:, 6] - 1.0)
    for alpha, beta in ((2, 3), (4, 5)):
        slope = _SLOPE_PENALTY * np.exp(2.0 * (x[:, beta] - x[:, alpha]))
        matrix[:, alpha, alpha] += slope
        matrix[:, beta, beta] += slope
        matrix[:, alpha, beta] -= slope
        matrix[:, beta, alpha] -= slope
        vector[:, alpha] -= slope
        vector[:, beta] += slope
    return matrix, vector


def _levenberg_marquardt(
    data: _Batch, x: FloatArray, free: NDArray[np.bool_], iterations: int = 60, tolerance: float = 1e-3
) -> FloatArray:
    """Minimise for all jobs at once; each has its own damping, and stops moving when it gains too little."""
    terms = data.evaluate(x)
    value = _objective(data, x, terms)
    damping = np.full(len(x), 1e-2)
    patience = np.full(len(x), _PATIENCE)
    diagonal = np.arange(7)
    for _ in range(iterations):
        matrix, vector = _normal_equations(data, x, terms)
        at_bound = ((x <= _LOWER) & (vector > 0)) | ((x >= _UPPER) & (vector < 0))
        moving = free & ~at_bound
        vector = np.where(moving, vector, 0.0)
        matrix = np.where(moving[:, :, None] & moving[:, None, :], matrix, 0.0)
        own = matrix[:, diagonal, diagonal]
        matrix[:, diagonal, diagonal] = own + damping[:, None] * (own + 1e-6) + np.where(moving, 1e-12, 1.0)
        step = np.clip(-np.linalg.solve(matrix, vector[..., None])[..., 0], -3.0, 3.0)
        trial = np.clip(x + step, _LOWER, _UPPER)
        trial_terms = data.evaluate(trial)
        trial_value = _objective(data, trial, trial_terms)
        better = trial_value < value
        gained = np.where(better, value - trial_value, 0.0)
        # A rejected step alone is no sign of the end: the next one is shorter.
        spent = better | (damping >= _MOST_DAMPING)
        patience = np.where(gained > tolerance * value + 1e-7, _PATIENCE, patience - spent)
        x = np.where(better[:, None], trial, x)
        value = np.where(better, trial_value, value)
        damping = np.where(better, np.maximum(damping / 5.0, 1e-7), np.minimum(damping * 8.0, 1e6))
        if not np.any(patience > 0):
            break
        if np.all(better):
            terms = trial_terms
        else:
            accept = better[:, None, None]
            terms = _Terms(
                np.where(accept, trial_terms.error, terms.error),
                np.where(accept[..., None], trial_terms.jacobian, terms.jacobian),
            )
    return x


def _inter_node_prior(data: _Batch, x: FloatArray) -> FloatArray:
    """Until several nodes were seen they are believed at least 1.1 times as slow as one."""
    never_inter = ~np.any(data.inter & (data.weight > 0), axis=1)
    out = x.copy()
    for several, one in ((2, 4), (3, 5)):
        prior = np.maximum(x[:, several], x[:, one] + np.log(_INTER_NODE_PRIOR))
        out[:, several] = np.where(never_inter, prior, x[:, several])
    return out
