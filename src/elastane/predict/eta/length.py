"""Determines how many steps a training has, from its log or from its owner."""

from __future__ import annotations

from elastane.predict.eta.log_parsers import Record


class LogLength:
    """The length of a training; the owner's figures win over those of the log."""

    def __init__(self, total_steps: int | None, epochs: float | None) -> None:
        self._asked = total_steps is not None, epochs is not None
        self._total_steps, self._epochs = total_steps, epochs
        self._per_epoch: float | None = None
        self._latest: tuple[int, float] | None = None

    def learn(self, record: Record) -> None:
        """Takes in one record of the log."""
        if record.total_steps and record.total_steps > 0 and not self._asked[0]:
            self._total_steps = record.total_steps
        if record.epochs and record.epochs > 0 and not self._asked[1]:
            self._epochs = record.epochs
        if record.kind or record.epoch is None or record.step is None:
            return
        if record.epoch % 1.0:  # HF writes fractions
            self._per_epoch = (
                record.step / record.epoch if record.step > 0 and record.epoch > 0 else self._per_epoch
            )
        elif self._latest is not None and record.epoch > self._latest[1] >= 0:
            # Lightning counts epochs and steps from 0: this line is the first of a new epoch.
            self._per_epoch = (self._latest[0] + 1) / record.epoch
        self._latest = record.step, record.epoch

    @property
    def steps(self) -> float | None:
        """The number of steps of the whole training; None if unknown."""
        if self._total_steps and not (self._asked[1] and not self._asked[0]):
            return float(self._total_steps)
        if self._epochs and self._per_epoch:
            return self._epochs * self._per_epoch
        return None
