"""The order of a pass as a user's own sampler gives it: the same on every worker, however often it is asked.

The sampler is read to its end once per pass, with every generator it could draw from seeded by (seed, pass).
It may be shorter or longer than the data set and repeat indices: what counts is positions.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import BatchSampler
from torch.utils.data.distributed import DistributedSampler

from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.one_shot import refuse_one_shot
from elastane.train.data.order import check_span
from elastane.train.data.rng import seeded
from elastane.train.errors import TrainError

LONGEST = 100_000_000
"""A sampler that gives more indices than this is taken to be endless."""


class SamplerOrder:
    """Positions of a pass filled by a torch ``Sampler`` or any iterable of indices.

    A sampler with its own state besides a ``generator`` must depend on ``set_epoch(pass)`` alone: a worker
    that joins later has not seen the earlier passes.
    """

    def __init__(self, sampler: Iterable[Any], seed: int = 0, name: str = "data", *, longest: int = LONGEST):
        self._sampler = sampler
        self._seed = seed
        self._name = name
        self._longest = longest
        self._table: tuple[int, NDArray[np.int64]] | None = None
        self._refuse_what_cannot_be_divided()

    def size(self, pass_index: int) -> int:
        """How many indices the sampler gives in this pass."""
        return len(self._table_of(pass_index))

    def indices(self, pass_index: int, start: int, count: int) -> NDArray[np.int64]:
        """The indices at positions [start, start + count)."""
        table = self._table_of(pass_index)
        check_span(start, count, len(table))
        return table[start : start + count].copy()

    def _table_of(self, pass_index: int) -> NDArray[np.int64]:
        if self._table is None or self._table[0] != pass_index:
            key = key_of(Purpose.SAMPLER, self._seed, pass_index)
            with seeded(key), _own_generator_seeded(self._sampler, key):
                self._table = (pass_index, self._read(pass_index))
        return self._table[1]

    def _read(self, pass_index: int) -> NDArray[np.int64]:
        set_epoch = getattr(self._sampler, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(pass_index)
        limited = islice(self._sampler, self._longest + 1)
        table = np.fromiter((self._index(entry) for entry in limited), dtype=np.int64)
        if len(table) > self._longest:
            raise TrainError(
                f"loader '{self._name}': the sampler gives over {self._longest} indices; is it endless?"
            )
        if not len(table):
            raise TrainError(f"loader '{self._name}': the sampler gives no index in pass {pass_index}")
        return table

    def _index(self, entry: Any) -> int:
        try:
            return operator.index(entry)
        except TypeError:
            if isinstance(entry, list | tuple):
                raise self._batches_refused() from None
            raise TrainError(
                f"loader '{self._name}': the sampler must give whole numbers, not {type(entry).__name__} {entry!r}"
            ) from None

    def _refuse_what_cannot_be_divided(self) -> None:
        sampler = self._sampler
        if isinstance(sampler, BatchSampler):
            raise self._batches_refused()
        if isinstance(sampler, DistributedSampler) and sampler.num_replicas > 1:
            raise TrainError(
                f"loader '{self._name}': a DistributedSampler divides the data a second time; "
                "leave it out and pass shuffle=, the loader divides the data over the workers itself"
            )
        refuse_one_shot(sampler, f"loader '{self._name}': the sampler")

    def _batches_refused(self) -> TrainError:
        return TrainError(
            f"loader '{self._name}': a batch sampler fixes who gets what; pass sampler= and batch_size= instead"
        )


@contextmanager
def _own_generator_seeded(sampler: Any, key: int) -> Iterator[None]:
    """Torch's samplers may carry a generator whose state depends on how many passes this process has seen."""
    generator = getattr(sampler, "generator", None)
    if not isinstance(generator, torch.Generator):
        yield
        return
    state = generator.get_state()
    generator.manual_seed(key)
    try:
        yield
    finally:
        generator.set_state(state)
