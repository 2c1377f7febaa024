"""Checkpoints at step boundaries: when they are due, by whom, and that they are told of."""

from __future__ import annotations

import contextlib
import time

from elastane.train.errors import PlaceAway
from elastane.train.reports.events import Saved, Warned
from elastane.train.worker.async_save import AsyncSaver, SaveInterval
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.telemetry import Reporter

SNAPSHOT_LEAST_S, SNAPSHOT_MOST_S = 2.0, 15.0
"""Between two snapshots in the node's memory, unless copying costs too much for that."""


class CheckpointSchedule:
    """Saves one worker's state; only the leader's is ever asked to."""

    def __init__(
        self, saver: AsyncSaver, interval: SaveInterval, state: TrainingState, reporter: Reporter
    ) -> None:
        self._saver = saver
        self._interval = interval
        self._state = state
        self._reporter = reporter
        self._told = -1
        self._warned: PlaceAway | None = None
        self._snapshots = SaveInterval(time.monotonic(), min_s=SNAPSHOT_LEAST_S, max_s=SNAPSHOT_MOST_S)

    def prepare(self) -> None:
        """Set memory aside before training begins."""
        self._saver.prepare(self._state.take())

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self._interval.due(time.monotonic())

    def between_steps(self, step: int, epoch: int, generation: int) -> None:
        """Save this boundary if it is time: to disk, or into the node's memory where there is some."""
        if self.due and not (
            self._saver.busy and self._saver.memory is not None
        ):  # else as soon as that is kept
            self.save(step, epoch, generation, wait=False)
        elif self._saver.memory is not None and self._snapshots.due(time.monotonic()) and not self._saver.busy:
            began = time.monotonic()
            self._saver.submit(step, self._state.take(), {"epoch": epoch}, generation, to_disk=False)
            self._snapshots.saved(time.monotonic(), time.monotonic() - began + self._saver.device_s)

    def save(self, step: int, epoch: int, generation: int, *, wait: bool) -> None:
        """Save this boundary; in the background unless ``wait``."""
        if wait:
            with contextlib.suppress(PlaceAway):  # this is the next try
                self._saver.flush()
        began = time.monotonic()
        self._saver.submit(step, self._state.take(), {"epoch": epoch}, generation)
        # What a device pauses is known later: the copy before tells it well enough.
        self._interval.saved(time.monotonic(), time.monotonic() - began + self._saver.device_s)
        if wait:
            self._saver.flush()
            self.tell()

    def tell(self) -> None:
        """Report the last checkpoint that was completed, and why one was not, once."""
        problem = self._saver.problem
        if isinstance(problem, PlaceAway) and problem is not self._warned:
            self._warned = problem
            self._reporter.emit(
                Warned(self._reporter.wall(), f"{problem}; training goes on, and saves again later")
            )
        facts = self._saver.last
        if facts is not None and facts.step != self._told:
            self._told = facts.step
            now = self._reporter.wall()
            self._reporter.emit(Saved(now, facts.step, facts.bytes, facts.blocking_s, facts.write_s))
