"""``HostTail`` is the host's end of the tail: what it writes before a reduction, and reads after it.

On an accelerator the numbers travel through pinned memory, one copy each way, and reading them is the only time in
a step that the host waits for the device.  That makes it the *commit point*: only after it does the host know that the
reduction is complete and was not aborted, and only then may anything be enqueued that changes a parameter.
On a CPU both ends are the tail itself.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from elastane.train.device import Device, Mark

Believe = Callable[[Mark], None]
"""Waits for a moment of the device; raises ``MembershipChanged`` if what came before it cannot be believed."""


class HostTail:
    """Pinned memory of one worker, used again in every step."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._up = self._down = torch.empty(0)
        self._sent: Mark | None = None

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

    def fetched(self, tail: Tensor, size: int, believe: Believe) -> Tensor:
        """The beginning of ``tail`` on the host; here the host waits, and learns whether to believe it."""
        if self._device.is_cpu:
            return tail[:size]
        self._down = self._room(self._down, size, tail.dtype)
        self._down[:size].copy_(tail[:size], non_blocking=True)
        believe(self._device.mark())
        self._sent = None
        return self._down[:size]

    def _room(self, memory: Tensor, size: int, dtype: torch.dtype) -> Tensor:
        enough = len(memory) >= size and memory.dtype is dtype
        return memory if enough else self._device.pinned(size, dtype)
