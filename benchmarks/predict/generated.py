"""Validation curves of made-up trainings, on which the constants of the stop forecast were chosen.

Families, floors, noise (correlated, with spikes), learning rates that drop in steps, decay or follow a cosine; budgets
of one to two times what was needed, and one run in four that never reaches its target.  That range is an assumption.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from elastane.models.speed import FloatArray

SLACK = 2.0
NEVER = 0.25


@dataclass(frozen=True, slots=True)
class Curve:
    """A validation measure; the run ends at ``end``, where ``target`` is reached, or at its budget."""

    name: str
    values: FloatArray
    end: int
    target: float

    @property
    def budget(self) -> int:
        """Validations at most."""
        return len(self.values)


def generated(count: int, seed: int) -> list[Curve]:
    """Made-up curves."""
    draw = np.random.default_rng(seed)
    found: list[Curve] = []
    while len(found) < count:
        curve = _curve(draw)
        if curve.end >= 10:
            found.append(curve)
    return found


def _curve(draw: Generator) -> Curve:
    n = int(draw.integers(30, 151))
    y, loudness = _scheduled(draw, _descent(draw, n))
    y = np.maximum(y + 10 ** draw.uniform(-3.3, -1.2) * loudness * _noise(draw, n), 1e-3)
    if draw.random() < NEVER:
        short_by = (y[0] - y.min()) * 10 ** draw.uniform(-3.0, -0.7)
        return Curve("never", y, n, float(y.min() - abs(short_by)))
    seen = int(n / np.exp(draw.uniform(0.0, np.log(SLACK))))
    end = int(np.argmin(y[:seen])) + 1
    return Curve("reached", y, end, float(y[end - 1]))


def _descent(draw: Generator, n: int) -> FloatArray:
    """From 1 down to a floor."""
    k, tau = np.arange(1.0, n + 1.0), n * draw.uniform(0.02, 0.5)
    families = (1.0 / (1.0 + k / tau), k ** -draw.uniform(0.2, 1.2), np.exp(-k / tau))
    shape = families[int(draw.integers(3))]
    floor = draw.uniform(0.05, 0.7)
    return np.asarray(floor + (1.0 - floor) * shape / shape[0], np.float64)


def _scheduled(draw: Generator, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What a schedule of the learning rate makes of a descent, and how loud its noise is."""
    n, k = len(y), np.arange(1.0, len(y) + 1.0)
    loudness = np.ones(n)
    kind = draw.choice(["none", "steps", "cosine", "decay"], p=[0.4, 0.3, 0.15, 0.15])
    if kind == "steps":
        for at in np.sort(draw.uniform(0.2, 0.95, draw.integers(1, 4))) * n:
            settled = np.where(k > at, 1.0 - np.exp(-np.maximum(k - at, 0.0) / draw.uniform(0.3, 3.0)), 0.0)
            y = y * (1.0 - draw.uniform(0.05, 0.5) * settled)
            loudness = np.where(k > at, loudness * draw.uniform(0.2, 0.8), loudness)
    elif kind == "cosine":
        loudness = 0.1 + 0.45 * (1.0 + np.cos(np.pi * k / n))
        y = y * (1.0 - draw.uniform(0.05, 0.4) * (1.0 - np.cos(np.pi * k / n)) / 2.0)
    elif kind == "decay":
        loudness = np.exp(-k / n * draw.uniform(1.0, 4.0))
        y = y * (1.0 - draw.uniform(0.0, 0.3) * (1.0 - loudness))
    return y, loudness


def _noise(draw: Generator, n: int) -> FloatArray:
    z, tied = draw.normal(size=n), draw.uniform(0.0, 0.6)
    for i in range(1, n):
        z[i] = tied * z[i - 1] + np.sqrt(1.0 - tied**2) * z[i]
    if draw.random() < 0.3:
        z += (draw.random(n) < 0.05) * draw.exponential(4.0, n)
    return np.asarray(z, np.float64)
