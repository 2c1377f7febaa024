"""Iterable data as a source: positions number the samples of the stream as they come.

Shuffling is the stream's own business.  So is being the same on every worker: it must depend on the pass and
on seeded generators alone, and must not divide itself by rank, for the loader does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from elastane.train.data.collate import Collate, Collator
from elastane.train.data.one_shot import refuse_one_shot
from elastane.train.data.replay import Replay
from elastane.train.data.seek import SeekableStream, Seeking
from elastane.train.errors import TrainError


class StreamSource:
    """A stream in the order it has.

    A ``SeekableStream`` is read where it is needed.  Anything else that can be iterated over again and again
    is read by every worker from its beginning; ``look_back`` samples are remembered at least.
    """

    def __init__(
        self,
        dataset: Iterable[Any] | SeekableStream,
        collate_fn: Collate | None = None,
        *,
        seed: int = 0,
        seed_samples: bool = False,
        name: str = "data",
        look_back: int = 0,
    ) -> None:
        refuse_one_shot(dataset, f"loader '{name}': the data set")
        self._name = name
        self._pass = 0
        self._collator = Collator(collate_fn, seed, seed_samples, name)
        self._stream: Seeking | Replay
        if isinstance(dataset, SeekableStream):
            self._stream = Seeking(dataset, seed, name, seed_samples)
        else:
            self._stream = Replay(dataset, seed, name, look_back)

    @property
    def length(self) -> int | None:
        """Samples in a pass; None unless a seekable stream says so."""
        return self._stream.length

    def open(self, pass_index: int) -> None:
        """Positions refer to this pass from now on."""
        self._pass = pass_index
        self._stream.open(pass_index)

    def available(self, start: int, count: int) -> int:
        """How many of the samples [start, start + count) exist; reads ahead where it must."""
        found = self._stream.count(start, count)
        if not found and start == 0 and count:
            hint = "" if self._pass == 0 else "; can it be iterated over more than once?"
            raise TrainError(f"loader '{self._name}': the data set gave no sample in pass {self._pass}{hint}")
        return found

    def fetch(self, start: int, count: int) -> Any:
        """The samples [start, start + count) as one collated batch."""
        if start < 0 or count < 1:
            raise ValueError(f"positions [{start}, {start + count}) cannot be fetched")
        return self._collator.collate(self._stream.read(start, count), self._pass, start)

    def expect(self, spans: Sequence[tuple[int, int]]) -> None:
        """Nothing to prepare: a stream is read in this process, when asked."""

    def close(self) -> None:
        """Let go of the stream."""
        self._stream.close()
