"""The metric that ends training when it is reached: followed from what the script reports, judged after each epoch.

The leader judges, and all workers hear its verdict at the same place of the script.  The verdict is part of the state,
so a newcomer, or a run that is taken up again, does not train on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from elastane.jobs.declared import Goal

LOSS = "loss"


class TargetWatch:
    """The latest value of one metric on this worker, and whether the job has reached its goal."""

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.reached = False
        self._latest: float | None = None
        self._loss: float | Tensor = 0.0
        self._losses = 0.0

    def heard(self, figures: Mapping[str, float]) -> None:
        """The script has reported, or evaluated, these figures."""
        value = figures.get(self.goal.metric)
        if value is not None:
            self._latest = float(value)

    def heard_loss(self, value: float | Tensor) -> None:
        """The script has reported a training loss: the goal is compared with the mean over an epoch."""
        self._loss += value
        self._losses += 1.0

    def judge(self) -> bool:
        """The leader's verdict at the end of an epoch."""
        value = self._latest
        if self.goal.metric == LOSS and value is None and self._losses:
            value = float(self._loss / self._losses)
        self._loss, self._losses = 0.0, 0.0
        if value is None or not math.isfinite(value):
            return False
        return value >= self.goal.value if self.goal.direction == "at-least" else value <= self.goal.value

    def settle(self, reached: bool) -> None:
        """The verdict that all workers have heard."""
        self.reached = self.reached or reached

    def state_dict(self) -> dict[str, Any]:
        """The verdict, and the figure that the next leader would judge by."""
        return {"reached": self.reached, "latest": self._latest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.reached = bool(state["reached"])
        latest = state["latest"]
        self._latest = None if latest is None else float(latest)
