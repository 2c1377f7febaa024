"""Computes how many steps a training has: epochs over a data set, split among workers into batches.

It counts as samplers and loaders do: each worker gets an equal share (filled up, or cut with ``drop_last``), the last
batch of an epoch may be smaller (or is dropped), and an update is made after ``accumulation`` batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from elastane.errors import ElastaneError
from elastane.predict.eta.stop_rule import EarlyStop
from elastane.predict.eta.types import Goal


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a training.  ``batch`` is that of one worker; ``before_*`` was done with other settings."""

    samples: int
    epochs: float
    batch: int
    workers: int = 1
    accumulation: int = 1
    drop_last: bool = False
    validate_every_epochs: float | None = None
    validation_s: float | None = None
    stop: EarlyStop | None = None
    before_steps: float = 0.0
    before_epochs: float = 0.0

    def __post_init__(self) -> None:
        if min(self.samples, self.batch, self.workers, self.accumulation) < 1 or not self.epochs > 0.0:
            raise ElastaneError(
                "samples, epochs, batch, workers and accumulation of a plan must all be above 0"
            )
        if self.steps_per_epoch < 1:
            raise ElastaneError(f"{self.samples} samples do not fill a single batch, and drop_last drops it")

    @property
    def steps_per_epoch(self) -> int:
        """The number of optimizer updates in an epoch."""
        if self.drop_last:
            return self.samples // self.workers // self.batch // self.accumulation
        batches = math.ceil(math.ceil(self.samples / self.workers) / self.batch)
        return math.ceil(batches / self.accumulation)

    @property
    def goal(self) -> Goal:
        """The goal of the training, in steps of all sessions and settings."""
        every = self.validate_every_epochs
        return Goal(
            total=self.before_steps
            + math.ceil((self.epochs - self.before_epochs) * self.steps_per_epoch - 1e-6),
            validate_every=None if every is None else every * self.steps_per_epoch,
            validation_s=self.validation_s,
            stop=self.stop,
        )

    def rebased(self, done_steps: float, batch: int | None = None, workers: int | None = None) -> Plan:
        """Returns the plan with another batch or number of workers from here on, which changes the steps left."""
        epochs = self.before_epochs + (done_steps - self.before_steps) / self.steps_per_epoch
        if epochs >= self.epochs:
            return self
        return replace(
            self,
            batch=batch or self.batch,
            workers=workers or self.workers,
            before_steps=done_steps,
            before_epochs=max(epochs, 0.0),
        )
