"""The leader alone saves checkpoints when they are due and reports windows of steps, between two steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elastane.train.adapt.controller import Adaptation
from elastane.train.reports.events import Event
from elastane.train.worker.checkpoint_schedule import CheckpointSchedule
from elastane.train.worker.membership import Membership
from elastane.train.worker.position import Position
from elastane.train.worker.telemetry import Reporter


def _nothing_saved(_generation: int) -> None:
    """Without a run there is no checkpoint to go back to."""


@dataclass(frozen=True, slots=True)
class Host:
    """What the script's side does for its loop, and tells of itself."""

    restore: Callable[[int], None] = _nothing_saved
    """Go back to the latest checkpoint, whose folder belongs to this generation from then on."""
    facts: Callable[[], dict[str, Any]] = dict
    """The fields of ``Stepped`` that only the script's side knows."""
    started: Callable[[], Event] | None = None
    """The event that says that a run begins."""
    versions: Mapping[str, Any] = field(default_factory=dict)
    """Versions that must be equal between workers."""
    stored: Callable[[], int] = int
    """The latest generation that has left anything where checkpoints lie."""


class LeaderDuties:
    """Acts on the worker with rank 0 only."""

    def __init__(
        self, membership: Membership, reporter: Reporter, checkpoints: CheckpointSchedule | None, host: Host
    ) -> None:
        self._membership = membership
        self._reporter = reporter
        self._checkpoints = checkpoints
        self._host = host

    def save(self, position: Position, *, wait: bool) -> None:
        """Save a checkpoint of this boundary; ``wait`` until it is written."""
        if self._checkpoints is not None and self._membership.rank == 0:
            self._checkpoints.save(position.step, position.epoch, self._membership.generation, wait=wait)

    def between_steps(self, position: Position, adaptation: Adaptation | None) -> None:
        """Save and report whatever is due."""
        if self._membership.rank != 0:
            return
        if self._checkpoints is not None:
            self._checkpoints.between_steps(position.step, position.epoch, self._membership.generation)
        if self._reporter.due():
            if self._checkpoints is not None:
                self._checkpoints.tell()
            self._reporter.window(**self._host.facts())
            if adaptation is not None:
                self._reporter.fitted(adaptation.hints())

    def at_the_end(self, position: Position) -> None:
        """Report the last window and save the final state."""
        if self._membership.rank == 0:
            self._reporter.window(**self._host.facts())
        self.save(position, wait=True)
