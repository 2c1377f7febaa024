"""The cut of a step is its number of samples from a loader, in units for the workers of the moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from elastane.cluster import Batch
from elastane.train.adapt.controller import Adaptation
from elastane.train.reduce.contract import Shares
from elastane.train.traffic import Traffic
from elastane.train.worker.batch_split import Mode, consistent_shares, divided_shares
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.whereabouts import Place


class Feed(Place, Protocol):
    """The part of a loader that the loop needs."""

    name: str
    batch_size: int
    adapts: bool

    def available(self, samples: int) -> int:
        """How many of the next ``samples`` there are in this pass."""
        ...

    def advance(self, samples: int, *, skipped: bool = False) -> None:
        """A step on these is complete; ``skipped`` if the script skipped every part of it."""
        ...


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What does not change during a job."""

    mode: Mode
    seed: int
    virtual: int
    traffic: Traffic = Traffic.FP32

    def units(self, recipe: Recipe) -> int:
        """Units of a step in consistent mode: none is larger than a batch of the loader."""
        return max(self.virtual, recipe.accumulate)


@dataclass(frozen=True, slots=True)
class StepCut:
    """Decides the size of steps and cuts them."""

    settings: LoopSettings
    recipe: Recipe

    def wanted(self, feed: Feed, adaptation: Adaptation | None) -> int:
        """Samples of the next step."""
        if adaptation is not None and feed.adapts and self.settings.mode is Mode.ADAPTIVE:
            return adaptation.total
        return feed.batch_size * self.recipe.accumulate

    def shares(
        self, samples: int, feed: Feed, adaptation: Adaptation | None, world: int, most: int = 0
    ) -> Shares:
        """The units of a step of so many samples, none of more than ``most`` unless that is 0 or units are fixed."""
        if self.settings.mode is Mode.CONSISTENT:
            return consistent_shares(samples, self.settings.units(self.recipe), world)
        alike = Batch(1, -(-self.recipe.accumulate // world) - 1)
        batch = adaptation.batch if adaptation is not None and feed.adapts else alike
        if most:
            needed = -(-samples // (world * most))
            batch = replace(batch, accumulation=max(batch.accumulation, needed - 1))
        return divided_shares(samples, batch, world)
