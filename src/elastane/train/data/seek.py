"""Positions of a stream that can begin anywhere: only the part that is asked for is read."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any, Protocol, runtime_checkable

from elastane.train.data.sample_rng import sample_rng
from elastane.train.errors import TrainError


@runtime_checkable
class SeekableStream(Protocol):
    """A stream whose samples depend on the pass and the position alone.

    With a ``__len__`` (samples in a pass) its end is known; without one it is searched for.
    """

    def iter_from(self, pass_index: int, position: int) -> Iterator[Any]:
        """The samples of this pass from ``position`` on; nothing at or beyond the end."""
        ...


class Seeking:
    """Reads on where the last span ended, or opens the stream elsewhere."""

    def __init__(self, dataset: SeekableStream, seed: int, name: str, seed_samples: bool = False) -> None:
        self._dataset = dataset
        self._seed = seed
        self._name = name
        self._seed_samples = seed_samples
        self._pass = 0
        self._opened: tuple[int, Iterator[Any]] | None = None
        self._exist = 0
        self._end: int | None = None

    @property
    def length(self) -> int | None:
        """Samples in a pass, if the stream says so."""
        return len(self._dataset) if isinstance(self._dataset, Sized) else None

    def open(self, pass_index: int) -> None:
        """Positions refer to this pass from now on."""
        if pass_index != self._pass:
            self._pass = pass_index
            self._exist, self._end = 0, None
            self.close()

    def count(self, start: int, count: int) -> int:
        """How many of these samples exist."""
        end = self._end if self.length is None else self.length
        if end is None:
            end = self._search_end(start + count)
        return max(0, min(count, end - start))

    def read(self, start: int, count: int) -> list[Any]:
        """These samples, which must exist."""
        opened = self._opened
        iterator = opened[1] if opened is not None and opened[0] == start else None
        self._opened = None
        iterator, samples = self._take(iterator, start, count)
        if len(samples) < count:
            raise TrainError(
                f"loader '{self._name}': the stream ended at position {start + len(samples)} of pass {self._pass}, "
                f"but there should be {start + count} samples at least"
            )
        self._opened = (start + count, iterator)
        return samples

    def close(self) -> None:
        """Drop the iterator, so that the next read begins anew."""
        self._opened = None

    def _search_end(self, limit: int) -> int:
        """The end of the pass, or ``limit`` if it lies there or beyond; one sample per step of a bisection."""
        if limit <= self._exist:
            return limit
        if self._exists(limit - 1):
            self._exist = limit
            return limit
        missing = limit - 1
        while self._exist < missing:
            middle = (self._exist + missing) // 2
            if self._exists(middle):
                self._exist = middle + 1
            else:
                missing = middle
        self._end = missing
        return missing

    def _exists(self, position: int) -> bool:
        return bool(self._take(None, position, 1)[1])

    def _take(self, iterator: Iterator[Any] | None, start: int, count: int) -> tuple[Iterator[Any], list[Any]]:
        """Up to ``count`` samples from ``start`` on, and the iterator behind them."""
        samples: list[Any] = []
        with sample_rng(self._seed, self._pass, self._seed_samples) as begin:
            try:
                begin(start)
                if iterator is None:
                    iterator = iter(self._dataset.iter_from(self._pass, start))
                for position in range(start, start + count):
                    begin(position)
                    samples.append(next(iterator))
            except StopIteration:
                pass
            except Exception as error:
                raise TrainError(
                    f"loader '{self._name}': the data set failed at position {start + len(samples)} "
                    f"of pass {self._pass}: {type(error).__name__}: {error}"
                ) from error
        assert iterator is not None
        return iterator, samples
