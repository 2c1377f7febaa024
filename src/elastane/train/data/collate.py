"""Samples become a batch: the user's ``collate_fn`` or torch's, repeatable, and explained when it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import default_collate

from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import seeded
from elastane.train.errors import TrainError

Collate = Callable[[list[Any]], Any]


class Collator:
    """Collates the samples of one loader.

    With ``seed_samples`` the global generators are seeded by (seed, pass, start): a ``collate_fn`` that draws
    random numbers repeats itself for the same span, but cannot be the same for another cut of the pass.
    """

    def __init__(self, collate_fn: Collate | None, seed: int, seed_samples: bool, name: str) -> None:
        self._collate = collate_fn or default_collate
        self._seed = seed
        self._seeded = seed_samples and collate_fn is not None
        self._name = name

    def collate(self, samples: list[Any], pass_index: int, start: int) -> Any:
        """The samples that stand at ``start`` and after it, as one batch."""
        try:
            if not self._seeded:
                return self._collate(samples)
            with seeded(key_of(Purpose.BATCH, self._seed, pass_index, start)):
                return self._collate(samples)
        except Exception as error:
            raise TrainError(
                f"loader '{self._name}': the samples at positions {start} to {start + len(samples) - 1} "
                f"of pass {pass_index} could not be collated: {type(error).__name__}: {error}"
            ) from error
