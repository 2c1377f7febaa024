"""Published figures describe public traces: arrivals, sizes, durations.  Read from ``data/fits.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from elastane.errors import ElastaneError
from elastane.sim.workloads.names import nearest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CLASS_UPPER_GPUS = (1, 4, 8, 16, 64)


def size_class(gpus: Ints) -> Ints:
    """The class of each GPU count: 1, 2–4, 5–8, 9–16, 17–64, more."""
    return np.searchsorted(_CLASS_UPPER_GPUS, gpus, side="left").astype(np.int64)


@dataclass(frozen=True)
class Durations:
    """A mixture of log-normals of seconds, each truncated to [min_s, max_s].

    ``weights``, ``mu`` and ``sigma`` have one entry per component; μ and σ are of ln seconds.
    """

    weights: tuple[float, ...]
    mu: tuple[float, ...]
    sigma: tuple[float, ...]
    min_s: float
    max_s: float

    def sample(self, which: Floats, where: Floats) -> Floats:
        """Seconds from two uniform numbers per job: one picks the component, one the quantile in it."""
        edges = np.cumsum(self.weights) / np.sum(self.weights)
        component = np.minimum(np.searchsorted(edges, which, side="right"), len(edges) - 1)
        mu, sigma = np.array(self.mu)[component], np.array(self.sigma)[component]
        low, high = ndtr((np.log(self.min_s) - mu) / sigma), ndtr((np.log(self.max_s) - mu) / sigma)
        seconds = np.exp(mu + sigma * ndtri(low + where * (high - low)))
        return np.asarray(np.clip(seconds, self.min_s, self.max_s), dtype=np.float64)

    def cdf(self, seconds: Floats | float) -> Floats:
        """Share of jobs that take at most this long."""
        at = np.log(np.clip(np.asarray(seconds, dtype=np.float64), self.min_s, self.max_s))[..., None]
        mu, sigma, weights = np.array(self.mu), np.array(self.sigma), np.array(self.weights)
        low, high = ndtr((np.log(self.min_s) - mu) / sigma), ndtr((np.log(self.max_s) - mu) / sigma)
        shares = (ndtr((at - mu) / sigma) - low) / (high - low)
        return np.asarray(shares @ (weights / weights.sum()), dtype=np.float64)


@dataclass(frozen=True)
class Arrivals:
    """When jobs come: hour and weekday weights (mean 1), burstiness k, and the sizes of bursts.

    ``burst_shares[i]`` is the share of bursts with i + 1 jobs.
    """

    mean_per_hour: float
    hour: tuple[float, ...]
    weekday: tuple[float, ...]
    k: float
    burst_shares: Floats


@dataclass(frozen=True)
class Fit:
    """The fitted statistics of one public trace."""

    name: str
    title: str
    arrivals: Arrivals
    gpus: Ints
    gpu_shares: Floats
    duration: Durations
    by_size: tuple[Durations | None, ...]
    status: Mapping[str, float]
    borrowed: str

    def durations_for(self, size: int) -> Durations:
        """The durations of a size class, or of all jobs where that class has no fit."""
        return self.by_size[size] or self.duration


@cache
def fits() -> Mapping[str, Fit]:
    """Every shipped fit by name."""
    text = resources.files("elastane.sim.workloads").joinpath("data/fits.json").read_text(encoding="utf-8")
    return {name: _fit(name, raw) for name, raw in json.loads(text)["traces"].items()}


def fit_named(name: str) -> Fit:
    """One fit, or an error with the nearest name."""
    if name not in fits():
        raise ElastaneError(f"no synthetic trace {name!r}{nearest(name, fits())}")
    return fits()[name]


def _fit(name: str, raw: Mapping[str, Any]) -> Fit:
    shares = np.array(list(raw["gpus"].values()), dtype=np.float64)
    return Fit(
        name=name,
        title=raw["title"],
        arrivals=_arrivals(raw["arrival"]),
        gpus=np.array([int(count) for count in raw["gpus"]], dtype=np.int64),
        gpu_shares=shares / shares.sum(),
        duration=_durations(raw["duration"]),
        by_size=tuple(_durations(part) if part else None for part in raw["by_size"]),
        status=raw["status"],
        borrowed=raw["borrowed"],
    )


def _durations(raw: Mapping[str, Any]) -> Durations:
    return Durations(tuple(raw["w"]), tuple(raw["mu"]), tuple(raw["sigma"]), raw["min_s"], raw["max_s"])


def _arrivals(raw: Mapping[str, Any]) -> Arrivals:
    burst = raw["burst"]
    head = np.array(burst["head"], dtype=np.float64)
    tail = np.arange(len(head) + 1, burst["max"] + 1, dtype=np.float64) ** -burst["tail_exponent"]
    shares = np.concatenate([head, tail * (1.0 - head.sum()) / tail.sum()])
    return Arrivals(raw["mean_per_hour"], tuple(raw["hour"]), tuple(raw["weekday"]), raw["k"], shares)
