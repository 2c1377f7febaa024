"""Pollux's throughput model: seconds per optimizer step from seven parameters (OSDI'21, §3.2).

=========  =====================================================================
symbol     meaning
=========  =====================================================================
K, N       workers (GPUs) and nodes in use
m, s       samples per GPU per pass; extra accumulation passes without sync
T_grad     α_c + β_c·m                         one forward and backward pass
T_sync     0 if K = 1; α_r + β_r·(K−2) on one node; α_n + β_n·(K−2) on several
T_iter     s·T_grad + (T_grad^γ + T_sync^γ)^(1/γ),  1 ≤ γ ≤ 10
=========  =====================================================================

γ = 1 is no overlap of computation and communication, large γ is full overlap.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from elastane.models.speed import FloatArray

Number = TypeVar("Number", float, FloatArray)

TINY_S = 1e-8
"""Stands for "no time at all" where a logarithm has to be taken; also the lower bound of α and β."""


class ThroughputParams(NamedTuple, Generic[Number]):
    """θ; each field a float, or an array that broadcasts against the allocations asked about."""

    alpha_c: Number
    beta_c: Number
    alpha_n: Number
    beta_n: Number
    alpha_r: Number
    beta_r: Number
    gamma: Number


def scaled(theta: ThroughputParams[float], factor: float) -> ThroughputParams[float]:
    """Returns θ of a job that takes ``factor`` times as long for everything."""
    return ThroughputParams._make([*(value * factor for value in theta[:6]), theta.gamma])


def gradient_time_s(theta: ThroughputParams[Number], per_gpu: Number) -> Number:
    """T_grad: seconds of one pass over ``per_gpu`` samples."""
    return theta.alpha_c + theta.beta_c * per_gpu


def sync_time_s(theta: ThroughputParams[FloatArray], nodes: FloatArray, workers: FloatArray) -> FloatArray:
    """T_sync: seconds of gradient exchange, ``TINY_S`` for a single worker."""
    beyond_two = np.maximum(workers - 2.0, TINY_S)
    several = nodes > 1
    alpha = np.where(several, theta.alpha_n, theta.alpha_r)
    beta = np.where(several, theta.beta_n, theta.beta_r)
    return np.where(workers > 1, alpha + beta * beyond_two, TINY_S)


def overlapped_s(gradient_s: FloatArray, sync_s: FloatArray, gamma: FloatArray) -> FloatArray:
    """(T_grad^γ + T_sync^γ)^(1/γ), written as big·(1 + (small/big)^γ)^(1/γ) so that γ = 10 cannot overflow."""
    ratio = np.minimum(gamma * np.log(sync_s / gradient_s), 600.0)
    return gradient_s * np.exp(np.log1p(np.exp(ratio)) / gamma)


def step_time_s(
    theta: ThroughputParams[FloatArray],
    nodes: FloatArray,
    workers: FloatArray,
    per_gpu: FloatArray,
    accumulation: FloatArray,
) -> FloatArray:
    """T_iter: seconds of one optimizer step of ``accumulation + 1`` passes, the last of which synchronises."""
    gradient_s = gradient_time_s(theta, per_gpu)
    sync_s = sync_time_s(theta, nodes, workers)
    return accumulation * gradient_s + overlapped_s(gradient_s, sync_s, theta.gamma)


def times_s(theta: ThroughputParams[float], nodes: int, workers: int, per_gpu: int) -> tuple[float, float]:
    """Seconds per pass without and with synchronisation, in plain arithmetic (asked for one at a time)."""
    gradient_s = theta.alpha_c + theta.beta_c * per_gpu
    if workers <= 1:
        sync_s = TINY_S
    elif nodes <= 1:
        sync_s = theta.alpha_r + theta.beta_r * (workers - 2)
    else:
        sync_s = theta.alpha_n + theta.beta_n * (workers - 2)
    big, small = max(gradient_s, sync_s), min(gradient_s, sync_s)
    return gradient_s, big * math.exp(math.log1p((small / big) ** theta.gamma) / theta.gamma)
