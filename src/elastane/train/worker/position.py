"""A position is how far a job and its script are: the part of the loop that exists before training begins.

Both differ while a script runs again up to the step that its job has reached.  Others read the attributes; they
change by the methods only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Position:
    """Counts steps, epochs and collectives of one job on one worker."""

    def __init__(self) -> None:
        self.step = 0
        """Optimizer steps that the job has made."""
        self.epoch = 0
        """The epoch that the job has reached."""
        self.here = 0
        """The epoch that the script is in; lower than ``epoch`` while it runs again up to there."""
        self.tick = 0
        """Steps and collectives completed: of two workers the one with more is ahead."""
        self.catching_up = False
        """State was taken over from a worker ahead: what the script does until its next collective is done already."""
        self.inside = False
        """Whether the script is in the body of a loop over a loader."""

    def begin_epochs(self) -> None:
        """The script enters ``job.epochs`` at the epoch that the job has reached."""
        self.here = self.epoch

    def end_epoch(self) -> None:
        """The script has come to the end of an epoch."""
        self.here += 1
        self.epoch = max(self.epoch, self.here)

    def advance(self) -> None:
        """A step that ended with one collective is complete on all workers."""
        self.step += 1
        self.tick += 1

    def count_step(self) -> None:
        """A step is complete whose collectives were counted one by one."""
        self.step += 1

    def met(self) -> None:
        """A collective other than a whole step is complete."""
        self.tick += 1

    def follow_to(self, step: int) -> None:
        """This worker has become a replica of one that is at ``step``."""
        self.step = step

    def fall_behind(self, behind: bool = True) -> None:
        """State was taken over: ``behind`` says whether the script still has to run up to where that was taken."""
        self.catching_up = behind

    def arrive(self) -> None:
        """The script has come to where the job stands: what it does from here on counts."""
        self.catching_up = False

    def enter_body(self) -> None:
        """The script's loop body begins."""
        self.inside = True

    def leave_body(self) -> None:
        """The script's loop body is over."""
        self.inside = False

    def state_dict(self) -> dict[str, Any]:
        """What all workers of a job have in common."""
        return {"step": self.step, "epoch": self.epoch, "tick": self.tick}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.step, self.epoch, self.tick = int(state["step"]), int(state["epoch"]), int(state["tick"])
