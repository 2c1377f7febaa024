"""Computes the shadow prices of an optimal schedule: what a second of each job's work is worth to all jobs.

The unfinished jobs are treated as a fluid: N GPUs, job j still needs x_j seconds of one GPU, k GPUs do the work of
s_j(k), and the aim is the smallest weighted sum of completion times.  By Pontryagin's principle the price of a job's
work, λ_j, stays constant while it runs, GPUs always maximise Σ λ_j s_j(a_j), and since nothing depends on the clock

    max over Σ a_j ≤ N of  Σ_{j unfinished} λ_j s_j(a_j)  =  Σ_{j unfinished} w_j        at every moment.

So prices follow one after another from the order in which jobs will finish, beginning with the last, alone on the
whole cluster: λ = w ÷ s(N).  Where all speed-ups are k^q this gives exactly the weights of heSRPT (Berg et al., 2020);
here every job has its own curve.

=========  ======================================================================================================
symbol     meaning
=========  ======================================================================================================
λ_j        price of a second of one-GPU work of job j, in (weighted) seconds of completion time
μ          price of a GPU for a second
F_j(u)     max_k s_j(k) − k·u, what a job makes of GPUs at price u; zero when none is worth it
D(μ)       Σ λ_j F_j(μ/λ_j) + μ·N; its minimum over μ is the best division's value (its dual)
=========  ======================================================================================================
"""

from __future__ import annotations

import numpy as np

from elastane.models.speed import FloatArray, IntArray

_STEP = 0.08
_LOW, _HIGH = -14.0, 3.0
"""Range of the grid of GPU prices, as logarithms."""
_MARGIN = 7.0
"""Largest absolute logarithm of a price of work."""
_PRICES = np.arange(_LOW, _HIGH, _STEP)
_COLUMNS = np.arange(len(_PRICES))[None, :]
_OFFERS = np.exp(np.arange(_LOW - _MARGIN, _HIGH + _MARGIN, _STEP))
_MOST_GROUPS = 32
_GUESSES = np.linspace(-0.3, 0.9, 7)
"""First trial values of the next price, as logarithms relative to the last one."""
_FINE = 0.25
_MOST_ROUNDS = 6


def shadow_prices(
    curves: FloatArray, sizes: IntArray, order: IntArray, weights: FloatArray, total: float, crowd: float = 0.0
) -> FloatArray:
    """Returns λ of every job.

    Args:
        curves: s_j at ``sizes``, per (job, size); 1 for one GPU.
        sizes: Numbers of GPUs, increasing.
        order: Jobs by when they will finish, the last one first.
        weights: w_j.
        total: GPUs there are.
        crowd: Future arrivals assumed to be present whenever these jobs finish, with curves like their average.
    """
    prices = np.ones(len(order))
    if len(order) == 0:
        return prices
    dual = np.exp(_PRICES) * total
    made = _made_of(curves, sizes)
    value, guess = 0.0, -np.log(max(total, 1.0)) * 0.8
    if crowd > 0.0:
        guess, dual = _next_price(dual, crowd, crowd * made.mean(axis=0), guess)
        value = crowd
    for group in _groups(order):
        value += float(weights[group].sum())
        guess, dual = _next_price(dual, value, made[group].sum(axis=0), guess)
        prices[group] = np.exp(guess)
    return prices


def _groups(order: IntArray) -> list[IntArray]:
    """Groups jobs, in order, that share one price: single ones first, where prices differ most, then larger groups."""
    if len(order) <= _MOST_GROUPS:
        return list(order[:, None])
    ends = np.unique(np.round(np.geomspace(1, len(order), _MOST_GROUPS)).astype(np.int64))
    return np.split(order, ends[:-1])


def _made_of(curves: FloatArray, sizes: IntArray) -> FloatArray:
    """Evaluates F_j at every offered GPU price: (job, offer)."""
    best = np.zeros((len(curves), len(_OFFERS)))
    for column, size in enumerate(sizes):
        np.maximum(best, curves[:, column : column + 1] - size * _OFFERS, out=best)
    return best


def _with(dual: FloatArray, offered: FloatArray, logs: FloatArray) -> FloatArray:
    """Returns D with one more job (or group) at each of several prices of its work: (price, μ)."""
    shift = (_MARGIN - logs) / _STEP
    whole = np.floor(shift).astype(np.int64)
    part = (shift - whole)[:, None]
    at = np.clip(whole[:, None] + _COLUMNS, 0, len(offered) - 2)
    made = offered[at] * (1.0 - part) + offered[at + 1] * part
    out: FloatArray = dual[None, :] + np.exp(logs)[:, None] * made
    return out


def _next_price(dual: FloatArray, value: float, offered: FloatArray, guess: float) -> tuple[float, FloatArray]:
    """Finds the price (as logarithm) at which the best division has the value ``value``; returns D with it, too."""
    low, high = -_MARGIN + _STEP, _MARGIN - _STEP
    logs = np.clip(guess + _GUESSES, low, high)
    found = guess
    for _ in range(_MOST_ROUNDS):
        worth = _with(dual, offered, logs).min(axis=1)
        enough = int(np.searchsorted(worth, value))
        low = low if enough == 0 else float(logs[enough - 1])
        high = high if enough == len(logs) else float(logs[enough])
        if 0 < enough < len(logs):
            rise = (value - worth[enough - 1]) / max(worth[enough] - worth[enough - 1], 1e-12)
            found = low + float(rise) * (high - low)
            if high - low <= _FINE:
                break
        logs = np.linspace(low, high, len(logs))
    found = float(np.clip(found, -_MARGIN + _STEP, _MARGIN - _STEP))
    return found, _with(dual, offered, np.array([found]))[0]
