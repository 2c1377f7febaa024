"""``ElasticSampler``: what is left of a pass over the data, divided among whoever is there.

No sample is given twice in a pass, whatever happens to the members: nothing is padded, and what was done before a
change is not done again.  All workers get equally many samples, so that their collectives match; where that does
not come out even, up to ``size() - 1`` samples are left out of the pass.  With ``batch_size`` given none are, unless
the last batch would be missing on some workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Sampler

from elastane.compat.horovod.operations import Sum, allreduce_, broadcast_
from elastane.compat.horovod.process import rank, session, size
from elastane.train.errors import TrainError


def usable(samples: int, workers: int, batch_size: int | None) -> int:
    """How many of the samples can be given out, one after the other in turn, so that batches come out even."""
    each = samples // workers
    even = batch_size is not None and each % batch_size != 0
    return samples if even else each * workers


class ElasticSampler(Sampler[int]):
    """A sampler to keep in ``elastic.State``; call ``record_batch`` after each step and ``set_epoch`` before a pass."""

    def __init__(
        self, dataset: Sized, shuffle: bool = True, seed: int = 0, batch_size: int | None = None
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise TrainError(f"ElasticSampler: batch_size must be 1 or more, not {batch_size}")
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self._batch_size = batch_size
        self._done = torch.zeros(len(dataset), dtype=torch.bool)
        self._order: Tensor | None = None

    @property
    def processed_indices(self) -> set[int]:
        """Samples of this pass that have been trained on."""
        return set(self._done.nonzero().flatten().tolist())

    def set_epoch(self, epoch: int) -> None:
        """Begin a pass; call it after a whole pass only, or what is left of this one is forgotten."""
        self.epoch = epoch
        self._done.zero_()
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """This batch of the present round is done, here and (for they step together) on all workers."""
        together = batch_size * size()
        session().record.counts(together)
        self._done[self._round()[batch_idx * together : (batch_idx + 1) * together]] = True

    def record_indices(self, indices: Iterable[int]) -> None:
        """These samples are done."""
        self._done[torch.tensor(list(indices), dtype=torch.int64)] = True

    def get_indices(self, batch_idx: int, batch_size: int) -> list[int]:
        """This worker's samples in a batch of the present round."""
        return self._mine()[batch_idx * batch_size : (batch_idx + 1) * batch_size]

    def reset(self) -> None:
        """A new round: the rest of the pass is divided again when it is next asked for."""
        self._order = None

    def _round(self) -> Tensor:
        """The samples of this round in the order in which workers take them in turn."""
        if self._order is None:
            count = len(self._done)
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            order = torch.randperm(count, generator=generator) if self.shuffle else torch.arange(count)
            left = order[~self._done[order]]
            self._order = left[: usable(len(left), size(), self._batch_size)]
        return self._order

    def _mine(self) -> list[int]:
        mine: list[int] = self._round()[rank() :: size()].tolist()
        return mine

    def __iter__(self) -> Iterator[int]:
        return iter(self._mine())

    def __len__(self) -> int:
        return len(self._mine())

    def merge(self, current: bool, root: int) -> None:
        """Know what others have recorded; ``current`` if this worker's record belongs to the newest state."""
        epoch = broadcast_(torch.tensor([self.epoch]), root)
        counts = self._done if current and self.epoch == int(epoch) else torch.zeros_like(self._done)
        self._done = allreduce_(counts.to(torch.int32), op=Sum) > 0

    def state_dict(self) -> dict[str, Any]:
        """Where the pass stands."""
        return {"epoch": self.epoch, "done": self._done}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        if len(state["done"]) != len(self._done):
            raise ValueError(f"{len(state['done'])} samples instead of {len(self._done)}")
        self.epoch = int(state["epoch"])
        self._done = state["done"].clone()
        self.reset()
