"""A script's objects (loaders, gated optimizers and schedulers) see their job through this interface."""

from __future__ import annotations

from typing import Protocol

from elastane.train.worker.loop import Loop
from elastane.train.worker.position import Position
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.step_cut import LoopSettings


class Training(Protocol):
    """A job's training; its loop exists from ``enter`` on."""

    settings: LoopSettings
    state: TrainingState
    recipe: Recipe
    position: Position

    def enter(self) -> Loop:
        """Begin to train, unless that has happened already."""
        ...

    @property
    def loop(self) -> Loop:
        """The loop; raises TrainError before training has begun."""
        ...

    @property
    def half_done(self) -> bool:
        """Whether some parts of a step have been computed and others have not."""
        ...

    @property
    def stepped(self) -> bool:
        """Whether the last ``opt.step()`` was a real step."""
        ...

    @property
    def replaying(self) -> bool:
        """Whether the script is still finding its way back to where the job stands."""
        ...
