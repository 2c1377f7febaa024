"""Pacing keeps measuring cheap: every k-th step is measured, with k from what it was seen to cost.

Each worker has its own wish; all must measure the same steps, so the leader's wish is sent to everyone.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean, median

EVERY_STEP_UNTIL = 20
"""The first steps of a job are all measured: without a noise scale nothing can be decided."""

_WINDOW = 15  # steps looked back on; the median step ignores a pause or an evaluation in between
_LONGEST_STRIDE = 1000


class Pacing:
    """Times measured and plain steps and derives the stride."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.stride = 1
        self._cost_s: deque[float] = deque(maxlen=_WINDOW)
        self._step_s: deque[float] = deque(maxlen=_WINDOW)

    def set_stride(self, stride: int) -> None:
        """Measure every ``stride``-th step."""
        self.stride = stride

    def due(self, step: int, pairs: bool) -> bool:
        """Whether a step is measured; ``pairs`` measures the step before each as well."""
        return step < EVERY_STEP_UNTIL or step % self.stride == 0 or (pairs and (step + 1) % self.stride == 0)

    def took(self, step_s: float, cost_s: float | None) -> None:
        """One step lasted ``step_s``, of which ``cost_s`` went into measuring (None: it was not measured)."""
        self._step_s.append(max(step_s - (cost_s or 0.0), 0.0))
        if cost_s is not None:
            self._cost_s.append(cost_s)

    def wish(self, pairs: bool) -> int:
        """The smallest stride at which measuring costs at most ``budget`` of the steps' own time."""
        if not self._cost_s:
            return self.stride
        allowed_s = self.budget * median(self._step_s)
        cost_s = fmean(self._cost_s) * (2 if pairs else 1)
        if cost_s > allowed_s * _LONGEST_STRIDE:
            return _LONGEST_STRIDE
        return max(1, math.ceil(cost_s / allowed_s)) if allowed_s > 0.0 else 1
