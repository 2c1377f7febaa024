"""Scores all four cost models on the tenth of a card's rows that none of them was fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from elastane.errors import ElastaneError
from elastane.predict.backtesting.errors import Score, score
from elastane.predict.costs.contract import Fitting, Timing
from elastane.predict.costs.layerwise import EPOCHS, LayerwiseNetwork
from elastane.predict.costs.ratio import RatioModel
from elastane.predict.costs.simple import LinearInFlops, Paleo
from elastane.predict.timings import TimingSet

LEAST_ROWS = 50
OURS = "ours"
NETWORK = "layer-wise network"

Progress = Callable[[float, str], None]


def models(epochs: int = EPOCHS) -> dict[str, Fitting]:
    """Returns the four cost models by name; ``epochs`` are of the neural network (its authors train 300)."""
    return {
        "linear in FLOPs": LinearInFlops.fit,
        "PALEO": Paleo.fit,
        NETWORK: lambda timings: LayerwiseNetwork.fit(timings, epochs=epochs),
        OURS: RatioModel.fit,
    }


@dataclass(frozen=True)
class HeldOut:
    """The scores of all models on one set of timings."""

    name: str
    device: str
    trained_on: int
    scores: tuple[Score, ...]

    def of(self, model: str) -> Score:
        """The score of one model."""
        return next(each for each in self.scores if each.model == model)

    @property
    def best(self) -> Score:
        """The score with the smallest median error."""
        return min(self.scores, key=lambda each: each.median)


def held_out(
    sets: Sequence[TimingSet], fits: dict[str, Fitting], progress: Progress = lambda _done, _what: None
) -> Iterator[HeldOut]:
    """Yields one result per set; nine rows in ten are used to fit, the rest to score."""
    check_rows(sets, "timings")
    done = 0
    for each in sets:
        known, new = _parted(each)
        scores = []
        for name, fit in fits.items():
            progress(done / (len(sets) * len(fits)), f"{each.name}: {name}")
            scores.append(score(fit(known), new))
            done += 1
        yield HeldOut(each.name, each.device.name, len(known), tuple(scores))


def check_rows(sets: Sequence[TimingSet], where: str) -> None:
    """Refuses sets that are too small, before the user has waited for the others."""
    for each in sets:
        if (count := len(each.timings)) < LEAST_ROWS:
            raise ElastaneError(f"{where}: {each.name} has {count} rows; a backtest needs {LEAST_ROWS} or more")


def _parted(each: TimingSet) -> tuple[list[Timing], list[Timing]]:
    count = len(each.timings)
    order = np.random.default_rng(0).permutation(count)
    cut = count * 9 // 10
    return [each.timings[i] for i in order[:cut]], [each.timings[i] for i in order[cut:]]
