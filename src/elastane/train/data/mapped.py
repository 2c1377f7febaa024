"""Map-style data (``__getitem__`` and ``__len__``) as a source, read in this process or in loader processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elastane.train.data.collate import Collate
from elastane.train.data.order import PassOrder
from elastane.train.data.pool import Pool, Span
from elastane.train.data.reader import Reader


class MapSource:
    """A data set in an order.

    ``num_workers`` loader processes read ahead what is expected; 0 reads in this process when asked.  The
    batches are the same either way if the data set draws its random numbers from ``sample_generator()``, or
    from anywhere with ``seed_samples``.
    """

    def __init__(
        self,
        dataset: Any,
        order: PassOrder,
        collate_fn: Collate | None = None,
        *,
        num_workers: int = 0,
        seed: int = 0,
        seed_samples: bool = False,
        name: str = "data",
    ) -> None:
        self._order = order
        self._pass = 0
        self._reader = Reader(dataset, collate_fn, seed=seed, seed_samples=seed_samples, name=name)
        self._pool = Pool(self._reader, num_workers, order) if num_workers else None

    @property
    def length(self) -> int:
        """Samples in the pass that is open."""
        return self._order.size(self._pass)

    def open(self, pass_index: int) -> None:
        """Positions refer to this pass from now on."""
        self._pass = pass_index

    def available(self, start: int, count: int) -> int:
        """How many of the samples [start, start + count) exist."""
        return max(0, min(count, self.length - start))

    def fetch(self, start: int, count: int) -> Any:
        """The samples [start, start + count) as one collated batch."""
        if self._pool is not None:
            return self._pool.fetch(Span(self._pass, start, count))
        return self._reader.read(self._pass, start, self._order.indices(self._pass, start, count))

    def expect(self, spans: Sequence[tuple[int, int]]) -> None:
        """Read ahead, if there are loader processes; spans that do not exist are ignored."""
        if self._pool is not None:
            exist = [(start, count) for start, count in spans if count and start + count <= self.length]
            self._pool.expect([Span(self._pass, start, count) for start, count in exist])

    def close(self) -> None:
        """End the loader processes."""
        if self._pool is not None:
            self._pool.close()
