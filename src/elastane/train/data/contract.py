"""A sample source gives the loader samples by position in a pass, whoever asks and however often.

A *pass* goes over the data once; its order depends on the seed and the number of the pass alone.  Positions
count samples, not batches, so nothing depends on how many workers there are or how large a batch is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Source(Protocol):
    """Data of one loader, as every worker sees it."""

    @property
    def length(self) -> int | None:
        """Samples in one pass; None when only reading to the end will tell."""
        ...

    def open(self, pass_index: int) -> None:
        """Begin (or go back to) a pass; positions below refer to it."""
        ...

    def available(self, start: int, count: int) -> int:
        """How many of the samples [start, start + count) exist; fewer than ``count`` only at the end."""
        ...

    def fetch(self, start: int, count: int) -> Any:
        """The samples [start, start + count) of this pass as one collated batch."""
        ...

    def expect(self, spans: Sequence[tuple[int, int]]) -> None:
        """These (start, count) will probably be fetched next, in this order; forgets earlier expectations.

        A hint and no more: wrong ones (empty, beyond the end, never fetched) only cost time.
        """
        ...

    def close(self) -> None:
        """Let go of processes and files."""
        ...
