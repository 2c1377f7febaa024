"""``HostTail`` is the host's end of the tail: what it writes before a reduction, and reads after it.

On an accelerator the numbers travel through pinned memory, one copy each way, and reading them is the only time in
a step that the host waits for the device.  That makes it the *commit point*: only after it does the host know that the
reduction is complete and was not aborted, and only then may anything be enqueued that changes a parameter.
On a CPU both ends are the tail itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from elastane.train.device import Device, Mark

Believe = Callable[[Mark], None]
"""Waits for a moment of the device; raises ``MembershipChanged`` if what came before it cannot be believed."""


class HostTail:
    """Pinned memory of one worker, used again in every step."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._up = self._down = self._beside = torch.empty(0)
        self._sent: Mark | None = None
        self._meanwhile: Callable[[], None] = _nothing
        self.committed: Mark | None = None
        """On an accelerator: the moment of the latest ``fetched``."""

    @contextmanager
    def doing_meanwhile(self, something: Callable[[], None]) -> Iterator[None]:
        """Have something done each time just before the host waits."""
        self._meanwhile = something
        try:
            yield
        finally:
            self._meanwhile = _nothing

    def opened(self, tail: Tensor, size: int) -> Tensor:
        """Zeros to be filled in, which ``send`` puts at the beginning of ``tail``."""
        if self._device.is_cpu:
            return tail[:size]
        if self._sent is not None:  # its reduction has failed, so nobody has waited for the copy yet
            self._sent.wait()
        self._up = self._room(self._up, size, tail.dtype)
        return self._up[:size].zero_()

    def send(self, tail: Tensor, size: int) -> None:
        """Copy what was filled in to ``tail``; the host does not wait."""
        if not self._device.is_cpu:
            tail[:size].copy_(self._up[:size], non_blocking=True)
            self._sent = self._device.mark()

    def fetched(
        self, tail: Tensor, size: int, believe: Believe, beside: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The beginning of ``tail``, and what lies beside it, on the host.

        Here the host waits, and learns whether to believe what it reads.
        """
        if self._device.is_cpu:
            return tail[:size], beside
        self._down = self._room(self._down, size, tail.dtype)
        self._down[:size].copy_(tail[:size], non_blocking=True)
        if beside is not None:
            self._beside = self._room(self._beside, beside.numel(), beside.dtype)
            self._beside[: beside.numel()].copy_(beside.reshape(-1), non_blocking=True)
        self.committed = self._device.mark()
        self._meanwhile()
        believe(self.committed)
        self._sent = None
        came = None if beside is None else self._beside[: beside.numel()].view(beside.shape)
        return self._down[:size], came

    def _room(self, memory: Tensor, size: int, dtype: torch.dtype) -> Tensor:
        enough = len(memory) >= size and memory.dtype is dtype
        return memory if enough else self._device.pinned(size, dtype)


def _nothing() -> None:
    """There is nothing to do."""
