"""The order puts a sample at each position of a pass: a function of the seed and the number of the pass.

Nothing here depends on workers, batches or history, so any worker may ask for any part at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elastane.train.data.feistel import feistel
from elastane.train.data.keys import Purpose, key_of, scramble

TABLE_LIMIT = 10_000_000
"""Up to this many samples a shuffled pass is a table (8 bytes each); beyond, it is computed as needed."""


WINDOW = 8192
"""Positions computed at once beyond that, for the sake of the next batches."""


class PassOrder(Protocol):
    """The samples of each pass, by position."""

    def size(self, pass_index: int) -> int:
        """How many positions this pass has."""
        ...

    def indices(self, pass_index: int, start: int, count: int) -> NDArray[np.int64]:
        """The indices at positions [start, start + count), which must exist; the caller may keep them."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """A part of a pass that has been worked out."""

    pass_index: int
    start: int
    indices: NDArray[np.int64]

    def holds(self, pass_index: int, start: int, count: int) -> bool:
        inside = self.start <= start and start + count <= self.start + len(self.indices)
        return inside and pass_index == self.pass_index


class Order:
    """Every sample of a data set once per pass, as it lies there or shuffled anew for each pass."""

    def __init__(self, length: int, seed: int = 0, shuffle: bool = False, *, table_limit: int = TABLE_LIMIT):
        self._length = length
        self._seed = seed
        self._shuffle = shuffle
        self._table_limit = table_limit
        self._known: _Known | None = None

    def size(self, pass_index: int) -> int:  # noqa: ARG002  (samplers need it)
        """The length of the data set, in every pass."""
        return self._length

    def indices(self, pass_index: int, start: int, count: int) -> NDArray[np.int64]:
        """The indices at positions [start, start + count)."""
        check_span(start, count, self._length)
        if not self._shuffle:
            return np.arange(start, start + count, dtype=np.int64)
        if self._known is None or not self._known.holds(pass_index, start, count):
            self._known = self._worked_out(pass_index, start, count)
        first = start - self._known.start
        return self._known.indices[first : first + count].copy()

    def _worked_out(self, pass_index: int, start: int, count: int) -> _Known:
        key = key_of(Purpose.ORDER, self._seed, pass_index)
        if self._length <= self._table_limit:
            return _Known(pass_index, 0, _shuffled(self._length, key))
        stop = min(self._length, start + max(count, WINDOW))
        positions = np.arange(start, stop, dtype=np.int64)
        return _Known(pass_index, start, feistel(positions, self._length, key))


def _shuffled(length: int, key: int) -> NDArray[np.int64]:
    """0 … length − 1, sorted by a random number each: in the low bits the index, in the others the number.

    No two are equal, so there is one way to sort them, whatever the algorithm of this machine.
    """
    indices = np.arange(length, dtype=np.uint64)
    low = np.uint64((1 << length.bit_length()) - 1)
    tickets = scramble(indices, key) & ~low
    tickets |= indices
    tickets.sort()
    return (tickets & low).astype(np.int64)


def check_span(start: int, count: int, size: int) -> None:
    """Positions outside the pass are a mistake of the caller, never silently cut."""
    if start < 0 or count < 1 or start + count > size:
        raise ValueError(f"positions [{start}, {start + count}) do not lie in a pass of {size} samples")
