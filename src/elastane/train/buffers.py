"""Model buffers (BatchNorm's running statistics): put back when a step is redone, and kept equal everywhere.

A forward changes them, so a step that is computed twice would count twice.  The buffers of one unit (the
first) are everybody's after the step; they travel in the tail of the reduction.

They are written through ``data``, as a forward does: a script may still have a backward before it whose forward
has seen them (a GAN's generator, when the discriminator has stepped), and PyTorch must not take it for spoilt.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_SPLIT = 2**20


class BufferKeeper:
    """Snapshot, restore, and the journey through the tail."""

    def __init__(self, model: nn.Module) -> None:
        self._buffers = [b for b in model.buffers() if b.numel()]
        self._saved = [b.detach().clone() for b in self._buffers]
        self._kept = [b.detach().clone() for b in self._buffers]
        self.size = sum(b.numel() * (1 if b.is_floating_point() else 2) for b in self._buffers)

    def snapshot(self) -> None:
        """Remember the buffers as they are before a step."""
        for saved, buffer in zip(self._saved, self._buffers, strict=True):
            saved.copy_(buffer)

    @torch.no_grad()
    def restore(self) -> None:
        """As they were at the snapshot."""
        for saved, buffer in zip(self._saved, self._buffers, strict=True):
            buffer.data.copy_(saved)

    def keep(self) -> None:
        """The present values are those that count after this step."""
        for kept, buffer in zip(self._kept, self._buffers, strict=True):
            kept.copy_(buffer)

    def write(self, tail: Tensor) -> None:
        """Put the kept values into a tail."""
        at = 0
        for buffer in self._kept:
            flat, size = buffer.detach().reshape(-1), buffer.numel()
            if buffer.is_floating_point():
                tail[at : at + size] = flat
                at += size
            else:
                # Whole numbers as two digits, each exact in a float.
                tail[at : at + size] = flat // _SPLIT
                tail[at + size : at + 2 * size] = flat % _SPLIT
                at += 2 * size

    @torch.no_grad()
    def read(self, tail: Tensor) -> None:
        """Take over the values of a tail."""
        at = 0
        for buffer in self._buffers:
            size = buffer.numel()
            if buffer.is_floating_point():
                buffer.data.copy_(tail[at : at + size].view(buffer.shape))
                at += size
            else:
                high, low = tail[at : at + size].round(), tail[at + size : at + 2 * size].round()
                buffer.data.copy_((high.to(torch.int64) * _SPLIT + low.to(torch.int64)).view(buffer.shape))
                at += 2 * size
