"""Positions of a data set that can only be read from its beginning to its end.

Every worker reads the whole stream and keeps what it is asked for: correct for any number of workers, but the
reading itself is not shared.  A stream that can begin anywhere (``seek.py``) does better.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import RngStates, capture, preserved, restore, seed_all
from elastane.train.data.sample_rng import sample_rng
from elastane.train.errors import TrainError


class Replay:
    """One iterator over the stream, and the samples read last, so that a block can be done again.

    It remembers ``look_back`` samples, or twice the largest span asked for if that is more; something older
    is found by starting over.  The stream reads with random generators of its own, seeded by (seed, pass):
    a data set that shuffles by the global generators gives every worker the same samples.
    """

    def __init__(self, dataset: Iterable[Any], seed: int, name: str, look_back: int = 0) -> None:
        self._dataset = dataset
        self._seed = seed
        self._name = name
        self._look_back = look_back
        self._pass = 0
        self._rewind()

    @property
    def length(self) -> None:
        """Unknown: what a stream says of its length is too often wrong."""
        return None

    def open(self, pass_index: int) -> None:
        """Positions refer to this pass from now on."""
        if pass_index != self._pass:
            self._pass = pass_index
            self._rewind()

    def count(self, start: int, count: int) -> int:
        """How many of these samples exist; reads up to the last of them."""
        self._reach(start, count)
        return max(0, min(count, self._next - start))

    def read(self, start: int, count: int) -> list[Any]:
        """These samples, which must exist."""
        self._reach(start, count)
        if start + count > self._next:
            raise ValueError(f"position {start + count - 1} lies beyond the end of the stream at {self._next}")
        first = start - self._oldest
        return list(islice(self._kept, first, first + count))

    def close(self) -> None:
        """Drop the iterator and the samples."""
        self._rewind()

    @property
    def _oldest(self) -> int:
        return self._next - len(self._kept)

    def _rewind(self) -> None:
        self._iterator: Iterator[Any] | None = None
        self._rng: RngStates | None = None
        self._kept: deque[Any] = deque()
        self._next = 0
        self._ended = False

    def _reach(self, start: int, count: int) -> None:
        """Read on until the span has been read or the stream has ended, from the start if it is forgotten."""
        self._look_back = max(self._look_back, 2 * count)
        read_before = self._next
        if start < self._oldest:
            self._rewind()
        if self._next < start + count and not self._ended:
            self._read_on(start + count)
        if self._ended and self._next < min(read_before, start + count):
            raise TrainError(
                f"loader '{self._name}': the stream ended at position {self._next} where it went on the first time; "
                "it must give the same samples whenever a pass is read again"
            )

    def _read_on(self, stop: int) -> None:
        with preserved(), sample_rng(self._seed, self._pass) as begin:
            try:
                self._prepare()
                while self._next < stop and not self._ended:
                    begin(self._next)
                    self._take_one()
            except Exception as error:
                position = self._next
                self._rewind()  # the iterator may be broken
                raise TrainError(
                    f"loader '{self._name}': the data set failed at position {position} of pass {self._pass}: "
                    f"{type(error).__name__}: {error}"
                ) from error
            self._rng = capture()

    def _prepare(self) -> None:
        if self._rng is not None:
            restore(self._rng)
        if self._iterator is None:
            seed_all(key_of(Purpose.STREAM, self._seed, self._pass))
            set_epoch = getattr(self._dataset, "set_epoch", None)
            if callable(set_epoch):
                set_epoch(self._pass)
            self._iterator = iter(self._dataset)

    def _take_one(self) -> None:
        assert self._iterator is not None
        try:
            self._kept.append(next(self._iterator))
        except StopIteration:
            self._ended = True
            return
        self._next += 1
        if len(self._kept) > self._look_back:
            self._kept.popleft()
