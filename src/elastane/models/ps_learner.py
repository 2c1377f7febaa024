"""Learns the speed model of one job with parameter servers; the same code live and simulated.

A new job starts with a few short pre-runs (Peng et al., Optimus, EuroSys 2018, section 3.2: five of some ten
seconds each); from then on every pair of servers and workers it really runs with refines the fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastane.cluster import Batch
from elastane.models.estimate import Provenance
from elastane.models.parameter_server import Pair, ParameterServerSpeed, SpeedSample, Updates, fit_speed
from elastane.models.speed import FloatArray, IntArray

PRE_RUN_S = 30.0
"""Seconds one pre-run takes; the paper says tens of seconds."""


@dataclass(frozen=True, slots=True)
class ServerTraining:
    """How a job with parameter servers trains, as its owner declares it, and what its pre-runs measured.

    ``batch`` is the M of the speed model.  ``pre_run_s`` is what one pre-run costs: a policy that uses the
    measurements pays for them when the job first starts.
    """

    updates: Updates
    batch: float
    pre_runs: tuple[SpeedSample, ...] = ()
    pre_run_s: float = PRE_RUN_S

    @property
    def profiling_s(self) -> float:
        """The seconds that all pre-runs took together."""
        return self.pre_run_s * len(self.pre_runs)


class ServerLearner:
    """Collects measured speeds of one job and keeps its speed model up to date.

    Each pair has one running mean: what a job does for hours soon outweighs what its pre-run said.
    """

    def __init__(self, training: ServerTraining, max_servers: int, max_workers: int) -> None:
        self._training, self._most = training, (max_servers, max_workers)
        self._means: dict[Pair, tuple[float, int]] = {}
        self._model: FittedServerSpeed | None = None
        self.stale = False
        for sample in training.pre_runs:
            self.observe(sample.servers, sample.workers, sample.steps_per_s)

    def observe(self, servers: int, workers: int, steps_per_s: float) -> None:
        """Takes in one measured speed; a job that stood still is ignored."""
        if servers < 1 or workers < 1 or steps_per_s <= 0.0:
            return
        mean, count = self._means.get((servers, workers), (0.0, 0))
        count += 1
        self._means[servers, workers] = mean + (steps_per_s - mean) / count, count
        self.stale = True

    def refit(self) -> int:
        """Refits if something was measured since the last fit; returns how many fits were made."""
        if not self.stale:
            return 0
        samples = (SpeedSample(p, w, mean) for (p, w), (mean, _) in self._means.items())
        fit = fit_speed(self._training.updates, self._training.batch, samples)
        profiled = max(w for _, w in self._means)
        self._model = FittedServerSpeed(fit, *self._most, max_profiled=profiled)
        self.stale = False
        return 1

    def model(self) -> FittedServerSpeed | None:
        """Returns the model as an immutable snapshot; None before the first measurement."""
        self.refit()
        return self._model


@dataclass(frozen=True, eq=False)
class FittedServerSpeed:
    """A fitted f(p, w) as policies ask for it.  Where tasks stand is part of what was measured, not of the model."""

    fit: ParameterServerSpeed
    max_servers: int
    max_workers: int
    max_profiled: int
    source: Provenance = Provenance.FITTED

    @property
    def max_useful(self) -> int:
        """The most workers that can be given work: no more than a synchronous step has samples."""
        if self.fit.updates is Updates.SYNC:
            return min(self.max_workers, max(int(self.fit.batch), 1))
        return self.max_workers

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:  # noqa: ARG002
        """Steps per second with one server per worker, as far as servers are allowed."""
        return self.server_rates(nodes, np.clip(workers, 1, max(self.max_servers, 1)), workers)

    def server_rates(self, nodes: IntArray, servers: IntArray, workers: IntArray) -> FloatArray:  # noqa: ARG002
        """Steps per second; 0 for pairs neither measured nor within reach of a fit."""
        runs = (servers > 0) & (workers > 0)
        fitted = self.fit.rates(np.maximum(servers, 1), np.maximum(workers, 1))
        out: FloatArray = np.where(runs & np.isfinite(fitted), fitted, 0.0)
        return out

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:  # noqa: ARG002
        """Returns None: these jobs keep their owner's batch."""
        return None
