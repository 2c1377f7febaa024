"""``BatchesAhead`` fetches a loader's batches and, for an accelerator, begins to copy the next one early.

What comes next is guessed: the spans that this worker has if nothing changes.  A guess is known by the samples it is
made of, so a wrong one is only dropped, and positions count what is trained on, never what was fetched.  The guess is
made while the host would wait for the device anyway, at the end of a step (``look_ahead``).
On a CPU nothing is fetched early.
"""

from __future__ import annotations

from typing import Any

from elastane.train.batch_mover import BatchMover, Travelling
from elastane.train.data.contract import Source
from elastane.train.device import Device

Span = tuple[int, int]
"""Position of the first sample, and how many."""


class BatchesAhead:
    """The batches of one pass."""

    def __init__(self, source: Source, device: Device) -> None:
        self._source = source
        self._mover = BatchMover(device)
        self._early = not device.is_cpu
        self._expected: list[Span] = []
        self._ahead: tuple[Span, Travelling] | None = None

    def expect(self, spans: list[Span], end: int | None) -> None:
        """These come next, if nothing changes; of a source with an ``end`` they can be fetched already."""
        self._source.expect(spans)
        if self._early:
            self._expected = [span for span in spans if end is not None and sum(span) <= end]

    def fetch(self, span: Span) -> Any:
        """The batch of these samples, where the script trains."""
        if not self._early:
            return self._source.fetch(*span)
        ahead, self._ahead = self._ahead, None
        self._expected = self._expected[self._expected.index(span) + 1 :] if span in self._expected else []
        if ahead is not None and ahead[0] == span:
            return ahead[1].arrived()
        return self._mover.start(self._source.fetch(*span)).arrived()

    def look_ahead(self) -> None:
        """Begin to copy the batch that comes next; what goes wrong shows when it is its turn."""
        if self._ahead is not None or not self._expected:
            return
        span = self._expected[0]
        try:
            self._ahead = span, self._mover.start(self._source.fetch(*span))
        except Exception:
            self._expected = []

    def forget(self) -> None:
        """Another pass begins: positions mean other samples."""
        self._expected, self._ahead = [], None
