"""Learns the goodput model of one running job and chooses its batch; the same code live and simulated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from elastane.cluster import Batch
from elastane.models.estimate import Provenance
from elastane.models.fitting import Fit, Observations, fit_throughput
from elastane.models.goodput import BatchLimits, GoodputModel, split_one
from elastane.models.history.experience import NoisePath, Timing, thinned
from elastane.models.history.prior import Comparison, Memory, joined
from elastane.models.throughput import ThroughputParams

_MEMORY_MASS = 2.0
"""Weight of everything from history, in measured configurations, however many pooled ones there are."""

_Key = tuple[int, int, int]  # nodes, workers, samples per GPU


class _Profile:
    """Measured times per configuration on one accelerator type."""

    def __init__(self) -> None:
        self.times: dict[_Key, tuple[float, float, int]] = {}
        self.fit: Fit | None = None
        self.stale = False
        self.start: ThroughputParams[float] | None = None

    def add(self, key: _Key, gradient_s: float, step_s: float) -> None:
        old = self.times.get(key)
        if old is None:
            self.times[key] = (gradient_s, step_s, 1)
            self.stale = True
            return
        count = old[2] + 1  # a running mean; the fit waits for a configuration that is really new
        self.times[key] = (
            old[0] + (gradient_s - old[0]) / count,
            old[1] + (step_s - old[1]) / count,
            count,
        )

    @property
    def most_workers(self) -> int:
        return max(workers for _, workers, _ in self.times)

    def observations(self) -> Observations:
        keys = np.array(list(self.times), dtype=np.float64)
        times = np.array(list(self.times.values()), dtype=np.float64)
        return Observations(keys[:, 0], keys[:, 1], keys[:, 2], times[:, 0], times[:, 1])


class Learner:
    """Collects measurements of one job and keeps its goodput model up to date.

    A configuration counts once however often it is seen, and only a new one asks for a refit: call ``refit``
    for many learners together.  ``memory``, what past jobs like it tell, answers until something was measured and
    fills gaps after that; when measurements contradict it, it is forgotten.
    """

    def __init__(self, limits: BatchLimits, memory: Memory | None = None) -> None:
        self.limits = limits
        self.max_profiled = 0
        self.widest = 0
        self.noise: float | None = None
        self.noise_path = NoisePath()
        self.memory = memory if memory is not None and memory.remembered else None
        self._expected_noise = memory.noise_at(0.0) if memory else None
        self._comparison = Comparison()
        self._profiles: dict[str, _Profile] = {}
        self._model: GoodputModel | None = None

    def observe(
        self, gpu_type: str, nodes: int, workers: int, per_gpu: int, gradient_s: float, step_s: float
    ) -> None:
        """Takes in one measured configuration: seconds per pass without sync, and per synchronising pass."""
        profile = self._profiles.setdefault(gpu_type, _Profile())
        profile.add((nodes, workers, per_gpu), gradient_s, step_s)
        self.max_profiled = max(self.max_profiled, workers)
        self.widest = max(self.widest, per_gpu)

    def observe_noise(self, noise: float, done: float | None = None) -> None:
        """Takes in the gradient noise scale, in samples, measured when ``done`` work was done (if that is known)."""
        if done is not None:
            self.noise_path.add(done, noise)
        if noise != self.noise:
            self.noise = noise
            self._model = None

    @property
    def stale(self) -> bool:
        """Whether something new was measured since the last fit."""
        return any(profile.stale for profile in self._profiles.values())

    def timings(self) -> dict[str, tuple[Timing, ...]]:
        """Returns the measured configurations by accelerator, thinned to some that represent all."""
        return {
            kind: thinned(Timing(*key, *times) for key, times in profile.times.items())
            for kind, profile in self._profiles.items()
        }

    def stale_profiles(self) -> Iterable[tuple[_Profile, Observations]]:
        """Yields the profiles that need a new fit, with the observations to fit."""
        self._reconsider()
        for kind, profile in self._profiles.items():
            if profile.stale:
                yield profile, self._evidence(kind, profile)

    def _reconsider(self) -> None:
        """Compares history with the measurements, and drops it if they contradict each other."""
        if self.memory is None or not self.stale:
            return
        own = {kind: profile.observations() for kind, profile in self._profiles.items()}
        comparison = self.memory.compared(own)
        if comparison is not None:
            self._comparison = comparison
            return
        self.memory = self._expected_noise = None
        for profile in self._profiles.values():
            profile.stale, profile.fit, profile.start = True, None, None

    def _evidence(self, kind: str, profile: _Profile) -> Observations:
        own = profile.observations()
        table = self.memory.remembered.get(kind) if self.memory else None
        if self.memory is None or table is None:
            return own
        if profile.fit is None:
            profile.start = self.memory.expected[kind].scaled(self._comparison.factor)
        return joined(own, table, self._comparison.factor, _MEMORY_MASS * self._comparison.trust)

    def refitted(self) -> None:
        """Discards the cached model, after ``refit`` has changed the fits."""
        self._model = None

    def model(self) -> GoodputModel | None:
        """Returns the model as an immutable snapshot; None before the first fit, if there is no history."""
        if self._model is None:
            fits = {kind: p.fit for kind, p in self._profiles.items() if p.fit is not None}
            params = {kind: fit.params for kind, fit in fits.items()}
            profiled = {kind: self._profiles[kind].most_workers for kind in fits}
            seen = self.max_profiled
            if self.memory is not None:
                seen = max(seen, self.memory.most_workers)
                for kind, known in self.memory.expected.items():
                    params.setdefault(kind, known.scaled(self._comparison.factor))
                    profiled[kind] = max(profiled.get(kind, 0), self.memory.most_workers)
            if not params:
                return None
            self._model = GoodputModel(
                params=params,
                noise=self._noise(),
                limits=self.limits,
                max_profiled=seen,
                source=Provenance.FITTED if fits else Provenance.HISTORY,
                relative_error=self._relative_error(list(fits.values())),
                observations=sum(fit.count for fit in fits.values()),
                widest=self.widest if self.memory is None else 0,
                profiled=profiled,
            )
        return self._model

    def _noise(self) -> float:
        if self.noise is not None:
            return self.noise
        return np.inf if self._expected_noise is None else self._expected_noise

    def _relative_error(self, fits: list[Fit]) -> float:
        """Returns the largest relative error of the fits; before the first, that of history."""
        if fits or self.memory is None:
            return max(fit.relative_error for fit in fits)
        return max(known.error for known in self.memory.expected.values())


def refit(learners: Sequence[Learner]) -> int:
    """Refits all stale profiles in one vectorised call; returns how many fits were made."""
    wanted = [pair for learner in learners for pair in learner.stale_profiles()]
    if not wanted:
        return 0
    starts = [profile.fit.params if profile.fit else profile.start for profile, _ in wanted]
    fits = fit_throughput([evidence for _, evidence in wanted], starts)
    for (profile, _), fit in zip(wanted, fits, strict=True):
        profile.fit = fit
        profile.stale = False
    for learner in learners:
        learner.refitted()
    return len(wanted)


def first_batch(limits: BatchLimits, workers: int) -> Batch:
    """Returns the batch used before anything was measured (or the owner's fixed one): never below M0."""
    total = limits.fixed or max(limits.initial, limits.per_gpu_min * workers)
    return split_one(total, workers, limits)


def choose_batches(
    learners: Sequence[Learner],
    allocations: Sequence[tuple[int, int]],
    current: Sequence[Batch | None],
    min_gain: float = 0.05,
    gpu_type: str = "",
) -> list[Batch]:
    """Returns the best batch for each learner on its (nodes, workers); small gains do not change a running one.

    ``min_gain`` is the relative gain that justifies a change: below it batch sizes would flap.
    """
    chosen = []
    for learner, (nodes, workers), old in zip(learners, allocations, current, strict=True):
        model = learner.model() if learner.limits.fixed is None else None
        rate, batch = model.best_of(nodes, workers, gpu_type) if model else (0.0, None)
        if model is None or batch is None:
            batch = first_batch(learner.limits, workers)
        elif old is not None and min_gain > 0.0 and batch != old:
            now = model.rate_of(old, nodes, workers, gpu_type)
            batch = batch if rate > (1.0 + min_gain) * now else old
        chosen.append(batch)
    return chosen
