"""A training as a test drives it: an engine along a clock, and made-up validation curves."""

from __future__ import annotations

import numpy as np

from elastane.predict.eta import Doing, EtaEngine, Goal, Span
from elastane.predict.interval import Interval


class Run:
    """Drives an engine along a clock."""

    def __init__(self, goal: Goal, done: float = 0.0) -> None:
        self.engine, self.now = EtaEngine(goal), 1000.0
        self.engine.resume(done)

    def go(self, doing: Doing, seconds: float, work: float = 0.0) -> None:
        self.engine.observe(Span(doing, self.now, self.now + seconds, work))
        self.now += seconds

    def steps(self, count: int, seconds: float) -> None:
        for _ in range(count):
            self.go(Doing.TRAIN, seconds, 1.0)

    @property
    def left(self) -> Interval:
        left = self.engine.remaining()
        assert isinstance(left, Interval), left
        return left


def descent(seed: int, epochs: int = 80) -> list[float]:
    """A loss that falls like 1/k, drops with its learning rate once, and is noisy."""
    draw = np.random.default_rng(seed)
    k = np.arange(1.0, epochs + 1.0)
    loss = draw.uniform(0.1, 0.5) + 1.0 / (1.0 + k / draw.uniform(2.0, 20.0))
    loss *= np.where(k > draw.uniform(0.3, 0.9) * epochs, draw.uniform(0.7, 1.0), 1.0)
    return list(loss + draw.normal(0.0, 10 ** draw.uniform(-3.0, -1.7), epochs))
