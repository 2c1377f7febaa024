"""Times a fixed piece of work, the *tick*, beside everything else, to tell a slow operator from a slow minute.

On a shared machine the same step takes 12 ms in one minute and 20 ms in the next.  A tick does a little of what
training does (a product, a sweep over memory, many tiny calls).  A time divided by the tick measured beside it, times
the machine's usual tick, is how long the work usually takes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

Clock = Callable[[], float]


class Tick:
    """The reference work, with its tensors made once so that it can be timed repeatedly."""

    def __init__(self, ticks: Clock) -> None:
        self._ticks = ticks
        with torch.random.fork_rng(devices=[]):
            self._square = torch.randn(256, 256)
            self._source = torch.randn(1_000_000)
        self._target = torch.empty_like(self._source)
        self._tiny = torch.zeros(4)
        self.seconds()

    def seconds(self) -> float:
        """Runs one tick and returns its seconds: some milliseconds, about a third in each of its parts."""
        began = self._ticks()
        with torch.no_grad():
            for _ in range(4):
                torch.mm(self._square, self._square)
            for _ in range(3):
                torch.add(self._source, 1.0, out=self._target)
            for _ in range(400):
                self._tiny.add_(1.0)
        return max(self._ticks() - began, 1e-9)
