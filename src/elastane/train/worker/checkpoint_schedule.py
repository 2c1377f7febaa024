"""Checkpoints at step boundaries: when they are due, by whom, and that they are told of."""

from __future__ import annotations

import time

from elastane.train.reports.events import Saved
from elastane.train.worker.async_save import AsyncSaver, SaveInterval
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.telemetry import Reporter


class Keeper:
    """Saves one worker's state; only the leader's is ever asked to."""

    def __init__(
        self, saver: AsyncSaver, interval: SaveInterval, state: TrainingState, reporter: Reporter
    ) -> None:
        self._saver = saver
        self._interval = interval
        self._state = state
        self._reporter = reporter
        self._told = -1

    def prepare(self) -> None:
        """Set memory aside before training begins."""
        self._saver.prepare(self._state.take())

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self._interval.due(time.monotonic())

    def save(self, step: int, epoch: int, generation: int, *, wait: bool) -> None:
        """Save this boundary; in the background unless ``wait``."""
        if wait:
            self._saver.flush()
        began = time.monotonic()
        self._saver.submit(step, self._state.take(), {"epoch": epoch}, generation)
        # What a device pauses is known later: the copy before tells it well enough.
        self._interval.saved(time.monotonic(), time.monotonic() - began + self._saver.device_s)
        if wait:
            self._saver.flush()
            self.tell()

    def tell(self) -> None:
        """Report the last checkpoint that was completed, once."""
        facts = self._saver.last
        if facts is not None and facts.step != self._told:
            self._told = facts.step
            now = self._reporter.wall()
            self._reporter.emit(Saved(now, facts.step, facts.bytes, facts.blocking_s, facts.write_s))
