"""What is learned about one running job, and the batch it should use: the same code live and simulated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from elastane.cluster import Batch
from elastane.models.estimate import Provenance
from elastane.models.fitting import Fit, Observations, fit_throughput
from elastane.models.goodput import BatchLimits, GoodputModel, split_one

_Key = tuple[int, int, int]  # nodes, workers, samples per GPU


class _Profile:
    """Measured times per configuration on one accelerator type."""

    def __init__(self) -> None:
        self.times: dict[_Key, tuple[float, float, int]] = {}
        self.fit: Fit | None = None
        self.stale = False

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

    def observations(self) -> Observations:
        keys = np.array(list(self.times), dtype=np.float64)
        times = np.array(list(self.times.values()), dtype=np.float64)
        return Observations(keys[:, 0], keys[:, 1], keys[:, 2], times[:, 0], times[:, 1])


class Learner:
    """Collects measurements of one job and keeps its goodput model up to date.

    A configuration counts once however often it is seen, and only a new one asks for a refit: call ``refit``
    for many learners together.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self.limits = limits
        self.max_profiled = 0
        self.noise: float | None = None
        self._profiles: dict[str, _Profile] = {}
        self._model: GoodputModel | None = None

    def observe(
        self, gpu_type: str, nodes: int, workers: int, per_gpu: int, gradient_s: float, step_s: float
    ) -> None:
        """One measured configuration: seconds per pass without sync, and per synchronising pass."""
        profile = self._profiles.setdefault(gpu_type, _Profile())
        profile.add((nodes, workers, per_gpu), gradient_s, step_s)
        self.max_profiled = max(self.max_profiled, workers)

    def observe_noise(self, noise: float) -> None:
        """The gradient noise scale measured last, in samples."""
        if noise != self.noise:
            self.noise = noise
            self._model = None

    @property
    def stale(self) -> bool:
        """Whether something new was measured since the last fit."""
        return any(profile.stale for profile in self._profiles.values())

    def stale_profiles(self) -> Iterable[_Profile]:
        """Profiles that want a new fit."""
        return (profile for profile in self._profiles.values() if profile.stale)

    def refitted(self) -> None:
        """Told by ``refit`` that fits have changed."""
        self._model = None

    def model(self) -> GoodputModel | None:
        """The present knowledge as an immutable snapshot; None before the first fit."""
        if self._model is None:
            fits = {kind: p.fit for kind, p in self._profiles.items() if p.fit is not None}
            if not fits:
                return None
            self._model = GoodputModel(
                params={kind: fit.params for kind, fit in fits.items()},
                noise=np.inf if self.noise is None else self.noise,
                limits=self.limits,
                max_profiled=self.max_profiled,
                source=Provenance.FITTED,
                relative_error=max(fit.relative_error for fit in fits.values()),
                observations=sum(fit.count for fit in fits.values()),
            )
        return self._model


def refit(learners: Sequence[Learner]) -> int:
    """Refit everything stale in one vectorised call; returns how many fits were made."""
    profiles = [profile for learner in learners for profile in learner.stale_profiles()]
    if not profiles:
        return 0
    starts = [profile.fit.params if profile.fit else None for profile in profiles]
    for profile, fit in zip(
        profiles, fit_throughput([p.observations() for p in profiles], starts), strict=True
    ):
        profile.fit = fit
        profile.stale = False
    for learner in learners:
        learner.refitted()
    return len(profiles)


def first_batch(limits: BatchLimits, workers: int) -> Batch:
    """The batch before anything was measured (or the owner's fixed one): never below M0."""
    total = limits.fixed or max(limits.initial, limits.per_gpu_min * workers)
    return split_one(total, workers, limits)


def choose_batches(
    learners: Sequence[Learner],
    allocations: Sequence[tuple[int, int]],
    current: Sequence[Batch | None],
    min_gain: float = 0.05,
    gpu_type: str = "",
) -> list[Batch]:
    """The best batch for each learner on its (nodes, workers); small gains do not change a running one.

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
