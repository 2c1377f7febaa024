"""``JobMeasurements`` fits models of speed, progress and pauses to what a live job reports.

The same models as everywhere; a job that is taken up again by another control plane is known as well as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from elastane.codec import decoded, encoded
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.history import Memory, NoisePoint, Timing
from elastane.models.history.experience import NoisePath, thinned
from elastane.models.online import Learner, refit
from elastane.models.restart import RestartCost
from elastane.models.throughput import ThroughputParams
from elastane.service.control.typed_profile import UNNAMED, TypedProfile
from elastane.service.messages import Training
from elastane.train.reports.events import Evaluated as EvaluatedEvent
from elastane.train.reports.events import Event, Fitted, Resized, Saved, Stepped, Warming, WorkerLost

_RECENT = 30
"""Windows from which the pace of the whole job is judged."""
_START_S = 5.0
_WARMING = 0.25
"""Part of its speed that a worker may lose while a newcomer warms up beside it (docs/elastic.md)."""
_MOST_PASSES = 10_000
_MOST_METRICS, _MOST_SIZES = 100, 200
"""Names that a job may report under, and configurations that it can be seen with."""
_PAUSE_S = {"adaptive": 1.0, "resizable": 15.0}
"""What a change is taken to cost before one was seen."""


class JobMeasurements:
    """Models of one job's speed and progress, fitted to what it has reported so far."""

    def __init__(self, kind: str) -> None:
        self.training: Training | None = None
        self.restart = RestartCost.of(_PAUSE_S.get(kind))
        self.start_s = _START_S
        """What its last start took, until all workers ran."""
        self.fractions: list[tuple[float, float]] = []
        """(moment, part of the whole) of the latest windows without a change between them."""
        self.memory: Memory | None = None
        """What past jobs like it tell."""
        self._noise = NoisePath()
        self._profile = TypedProfile()
        self.warming: tuple[str, float] | None = None
        """Who is in one of its first steps, and since when; nobody in particular while it starts."""
        self._model: GoodputModel | None = None
        self._asked: tuple[object, ...] = ()
        """What the model was made of: the same gives the same."""
        self._limits: BatchLimits | None = None
        self._batch0 = 0
        self._done = 0.0
        self._wall_s = self._step_s = 0.0

    def recall(self, memory: Memory, accelerator: str) -> None:
        """Take in what past jobs like it tell; its own measurements take over as they come."""
        self.memory = memory
        self._profile.recall(memory, accelerator)
        if memory.restart is not None and not self.restart.pauses_s:
            self.restart = RestartCost.of(memory.restart.mean)

    def hear(self, event: Event, share: float = 1.0, accelerator: str | None = UNNAMED) -> bool:
        """Take in a report; whether it is worth storing soon.

        ``share`` is the part of their full speed that slots had: times are learned as they would be alone.
        ``accelerator`` is the type that it trains on; None while that cannot be told, for it is about to change.
        """
        match event:
            case Stepped():
                self.warming = None
                self._step(event, share, accelerator)
            case Warming():
                self.warming = (event.worker, event.at_s - event.for_s)
                return False
            case Fitted():
                self._limits = event.limits
                self._batch0 = event.limits.initial
            case Resized():
                self._resized(event)
            case EvaluatedEvent() if self.training is not None:
                self.training = self.training.model_copy(
                    update={"metrics": _some({**self.training.metrics, **event.metrics})}
                )
            case WorkerLost() if self.training is not None:
                lost = self.training.workers_lost + 1
                self.training = self.training.model_copy(update={"workers_lost": lost})
            case Saved() if self.training is not None:
                self.training = self.training.model_copy(update={"checkpoint_step": event.step})
            case _:
                return False
        return True

    def _step(self, event: Stepped, share: float, accelerator: str | None) -> None:
        before = self.training
        self._batch0 = self._batch0 or event.batch
        self._done = event.progress * self._batch0 if event.progress else float(event.step * event.batch)
        if event.noise is not None:
            self._noise.add(self._done, event.noise)
        if event.fraction:
            self.fractions = [*self.fractions[1 - _RECENT :], (event.at_s, event.fraction)]
        self._wall_s += event.steps * event.step_s
        self._step_s += event.steps * (event.compute_s + event.sync_s)
        if event.steps and event.per_worker and accelerator is not None:
            passes = event.accumulation + 1
            pure_s, sync_s = event.compute_s / passes * share, event.sync_s * share
            key = (event.nodes, event.workers, event.per_worker)
            known = self._profile.knows(accelerator, key) or self._profile.size < _MOST_SIZES
            if known:  # nobody tries more than so many, and a fit of them would take for ever
                self._profile.add(
                    accelerator, key, [pure_s] * min(event.accumulation, _MOST_PASSES), pure_s + sync_s, sync_s
                )
        self.training = Training(
            at_s=event.at_s,
            step=event.step,
            epoch=event.epoch,
            epochs=event.epochs,
            loss=event.loss,
            metrics=_some({**(before.metrics if before else {}), **event.metrics}),
            batch=event.batch,
            per_worker=event.per_worker,
            accumulation=event.accumulation,
            lr_factor=event.lr_factor,
            samples_per_s=event.samples_per_s,
            efficiency=event.efficiency,
            goodput=event.samples_per_s * (event.efficiency if event.efficiency is not None else 1.0),
            noise=event.noise,
            resizes=before.resizes if before else 0,
            pauses_s=before.pauses_s if before else 0.0,
            redone_steps=before.redone_steps if before else 0,
            workers_lost=before.workers_lost if before else 0,
            checkpoint_step=before.checkpoint_step if before else None,
        )

    def _resized(self, event: Resized) -> None:
        self._profile.restart()
        # From here on it goes at another pace; the pause belongs to neither.
        self.fractions = [(event.at_s, part) for _, part in self.fractions[-1:]]
        if event.kind == "start":
            return
        self.restart = self.restart.observe(max(0.0, event.pause_s))
        if self.training is not None:
            self.training = self.training.model_copy(
                update={
                    "resizes": self.training.resizes + 1,
                    "pauses_s": self.training.pauses_s + event.pause_s,
                    "redone_steps": self.training.redone_steps + event.redone_steps,
                }
            )

    @property
    def change_s(self) -> float:
        """What a change of workers costs: the pause, and what newcomers take from those who train as they warm up.

        Going on after a suspension takes a whole start instead (``start_s``).
        """
        return self.restart.estimate().mean + _WARMING * self.start_s

    @property
    def overhead(self) -> float:
        """How much longer training takes than its steps: evaluations, loading, saving; 1 is no longer."""
        return max(1.0, self._wall_s / self._step_s) if self._step_s > 0 else 1.0

    @property
    def done(self) -> float:
        """Work done so far, in samples worth as much as at the owner's batch."""
        return self._done

    @property
    def fraction(self) -> float | None:
        """Part of the whole that is done; None when nobody can tell."""
        return self.fractions[-1][1] if self.fractions else None

    @property
    def remaining(self) -> Estimate | None:
        """Work still to do, in samples worth as much as at the owner's batch."""
        fraction = self.fraction
        if not fraction or not self._done:
            return self.memory.remaining(self._done) if self.memory else None
        return Estimate(self._done * (1.0 - fraction) / fraction, source=Provenance.DECLARED)

    @property
    def measured(self) -> frozenset[int]:
        """Worker counts that have really been tried."""
        return frozenset(workers for rows in self._profile.tables.values() for _, workers, _ in rows)

    def measured_on(self, accelerator: str) -> frozenset[int]:
        """Worker counts that have been tried on one accelerator type."""
        tables = self._profile.tables
        rows = tables.get(accelerator) or tables.get(UNNAMED) or {}
        return frozenset(workers for _, workers, _ in rows)

    def speed(self, *accelerators: str) -> GoodputModel | None:
        """Goodput for any number of workers; None before anything was measured, if no past job is like it.

        ``accelerators`` are the types of the cluster; what was measured before types had names was so on the first.
        """
        asked = (accelerators, self._profile.version, self.limits, self._expected_noise())
        if asked == self._asked and not self._profile.stale:
            return self._model
        made = self._measured_speed(accelerators[0]) or self._remembered_speed(accelerators)
        # The very same model as long as it says the same: much is computed from it, and remembered by it.
        if made is None or self._model is None or vars(self._model) != vars(made):
            self._model = made
        self._asked = (accelerators, self._profile.version, self.limits, self._expected_noise())
        return self._model

    def _measured_speed(self, accelerator: str) -> GoodputModel | None:
        limits = self.limits
        model = self._profile.model(limits, self._expected_noise()) if limits is not None else None
        if model is None:
            return None
        most = max(model.max_profiled, *self.measured, 1)
        return replace(model, params=_named(model, accelerator), max_profiled=most)

    def _remembered_speed(self, accelerators: Sequence[str]) -> GoodputModel | None:
        limits = self.limits or (self.memory.limits if self.memory else None)
        model = Learner(limits, self.memory).model() if limits is not None else None
        if model is None or not any(kind in model.params for kind in accelerators):
            return None
        return replace(model, noise=self._expected_noise())

    def _expected_noise(self) -> float:
        """As measured; before that, as past jobs began."""
        noise = self.training.noise if self.training is not None else None
        if noise is None and self.memory is not None:
            noise = self.memory.noise_at(0.0)
        return math.inf if noise is None else noise

    def timings(self, accelerator: str) -> dict[str, tuple[Timing, ...]]:
        """What it was seen to take, by type (``accelerator`` if unnamed): some configurations for all."""
        return {
            kind or accelerator: thinned(
                Timing(*key, each.gradient_s, each.step_s, each.last_count) for key, each in rows.items()
            )
            for kind, rows in self._profile.tables.items()
        }

    def noise_points(self) -> tuple[NoisePoint, ...]:
        """Its gradient noise along the way."""
        return self._noise.points(self._done / (self.fraction or 1.0))

    @property
    def limits(self) -> BatchLimits | None:
        """Batches it may use: as it says itself, else the one it was seen with."""
        return self._limits or self._fixed_limits()

    def _fixed_limits(self) -> BatchLimits | None:
        batch = self._batch0
        return BatchLimits(batch, batch, 1, batch) if batch else None

    def training_json(self) -> dict[str, Any]:
        """The latest report on its training, as JSON values for the store."""
        return self.training.model_dump() if self.training is not None else {}

    def profile_json(self) -> dict[str, Any]:
        """What was learned of its speed, pauses and progress, as JSON values for the store."""
        limits = self._limits
        return {
            **self._profile.to_json(),
            "batch0": self._batch0,
            "start_s": self.start_s,
            "wall_s": self._wall_s,
            "step_s": self._step_s,
            "done": self._done,
            "fractions": self.fractions[-2:],
            "pauses_s": list(self.restart.pauses_s),
            "limits": None if limits is None else encoded(limits),
        }

    @classmethod
    def restored(cls, kind: str, training: Mapping[str, Any], profile: Mapping[str, Any]) -> JobMeasurements:
        """From what ``training_json`` and ``profile_json`` wrote."""
        self = cls(kind)
        if training:
            self.training = Training.model_validate(training)
        if profile:
            self._profile.from_json(profile)
            self._batch0, self._done = int(profile["batch0"]), float(profile["done"])
            self.start_s = float(profile.get("start_s", _START_S))
            self._wall_s, self._step_s = float(profile.get("wall_s", 0.0)), float(profile.get("step_s", 0.0))
            self.fractions = [(float(at), float(part)) for at, part in profile["fractions"]]
            for pause in profile["pauses_s"]:
                self.restart = self.restart.observe(float(pause))
            if profile["limits"] is not None:
                self._limits = decoded(BatchLimits, profile["limits"])
        return self

    def stale_learner(self) -> Learner | None:
        """What it was seen to take, if that is to be fitted anew."""
        limits = self.limits
        return self._profile.learner(limits) if limits is not None and self._profile.stale else None

    def fitted(self, learner: Learner) -> None:
        """Its learner has been fitted."""
        self._profile.fitted(learner)


def _some(metrics: Mapping[str, float]) -> dict[str, float]:
    return dict(list(metrics.items())[:_MOST_METRICS])


def _named(model: GoodputModel, accelerator: str) -> dict[str, ThroughputParams[float]]:
    """The speeds by accelerator; what has no name was measured here."""
    return {kind or accelerator: theta for kind, theta in model.params.items()}


def fit_together(jobs: Iterable[JobMeasurements]) -> None:
    """Fit whatever is new about these jobs in one call, which takes hardly longer than a single one."""
    stale = [(job, learner) for job in jobs if (learner := job.stale_learner()) is not None]
    refit([learner for _, learner in stale])
    for job, learner in stale:
        job.fitted(learner)
