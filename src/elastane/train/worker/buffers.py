"""Model buffers (BatchNorm's running statistics): put back when a step is redone, and kept equal everywhere.

A forward changes them, in place or by putting another tensor there, so a step that is computed twice would count
twice.  The buffers of one unit (the first) are everybody's after the step; they travel in the tail of the
reduction.  Buffers that are no part of a model's state (``persistent=False``) may change their shape: from then on
each worker has its own.

They are written through ``data``, as a forward does: a script may still have a backward before it whose forward
has seen them (a GAN's generator, when the discriminator has stepped), and PyTorch must not take it for spoilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from elastane.train.errors import TrainError
from elastane.train.worker.float_transport import from_numbers, numbers_of, size_in_numbers


class _Buffer:
    """One buffer of a module, found by its name each time."""

    def __init__(self, module: nn.Module, key: str, name: str) -> None:
        first = module._buffers[key]
        assert first is not None
        if first.is_meta:
            raise TrainError(
                f"buffer {name} has no values yet; move the model off the meta device before training begins"
            )
        self._module, self._key, self._name = module, key, name
        self._first, self._shape, self._dtype = first, first.shape, first.dtype
        self._fleeting = key in module._non_persistent_buffers_set
        self.numbers = size_in_numbers(first)

    def get(self) -> Tensor | None:
        """The tensor that is there now; None if it is this worker's own affair."""
        now = self._module._buffers.get(self._key)
        if now is not None and now.shape == self._shape and now.dtype is self._dtype:
            return now.detach()
        if self._fleeting:
            return None
        became = "is gone" if now is None else f"has become {tuple(now.shape)} {now.dtype}"
        raise TrainError(
            f"buffer {self._name} {became}, where it was {tuple(self._shape)} {self._dtype} when training began; "
            "keep its shape, or register it with persistent=False if it is only a cache"
        )

    @torch.no_grad()
    def put(self, values: Tensor) -> None:
        """Give it these values: in place, unless the model has put another tensor there."""
        now = self._module._buffers.get(self._key)
        if now is self._first or now is None:
            self._first.data.copy_(values)
        else:
            self._module._buffers[self._key] = values.clone()


class BufferKeeper:
    """Snapshot, restore, and the journey through the tail."""

    def __init__(self, model: nn.Module) -> None:
        self._buffers = list(_buffers_of(model))
        self._saved: list[Tensor | None] = self._copies()
        self._kept = self._copies()
        self.flags = len(self._buffers)
        """How many numbers say which buffers are there."""
        self.size = sum(buffer.numbers for buffer in self._buffers)
        """How many numbers their values are."""

    def _copies(self) -> list[Tensor | None]:
        present = (buffer.get() for buffer in self._buffers)
        return [None if tensor is None else tensor.clone() for tensor in present]

    def snapshot(self) -> None:
        """Remember the buffers as they are before a step."""
        self._remember(self._saved)

    def keep(self) -> None:
        """The present values are those that count after this step."""
        self._remember(self._kept)

    def _remember(self, memory: list[Tensor | None]) -> None:
        for index, buffer in enumerate(self._buffers):
            tensor, before = buffer.get(), memory[index]
            if tensor is None or before is None:
                memory[index] = None if tensor is None else tensor.clone()
            else:
                before.copy_(tensor)

    def restore(self) -> None:
        """As they were at the snapshot."""
        for saved, buffer in zip(self._saved, self._buffers, strict=True):
            if saved is not None and buffer.get() is not None:
                buffer.put(saved)

    def take_kept(self) -> None:
        """The kept values are those after this step, where there is nobody to send them to."""
        for kept, buffer in zip(self._kept, self._buffers, strict=True):
            if kept is not None and buffer.get() is not None:
                buffer.put(kept)

    def tell(self, flags: Tensor) -> None:
        """Write into the host's part of a tail which buffers are kept here."""
        flags.copy_(torch.tensor([kept is not None for kept in self._kept]))

    def write(self, tail: Tensor) -> None:
        """Put the kept values into a tail, where they lie."""
        at = 0
        for buffer, kept in zip(self._buffers, self._kept, strict=True):
            if kept is not None:
                tail[at : at + buffer.numbers] = numbers_of(kept, tail.dtype)
            at += buffer.numbers

    def read(self, flags: Sequence[float], tail: Tensor) -> None:
        """Take over the values of a tail; ``flags`` are what ``tell`` wrote."""
        at = 0
        for buffer, flag in zip(self._buffers, flags, strict=True):
            there = buffer.get()
            if there is not None and flag > 0.5:
                buffer.put(from_numbers(tail[at : at + buffer.numbers], there))
            at += buffer.numbers


def _buffers_of(model: nn.Module) -> Iterator[_Buffer]:
    """Each buffer once, also where several modules share it."""
    seen = set()
    for path, module in model.named_modules():
        for key, tensor in module._buffers.items():
            if tensor is not None and tensor.numel() and id(tensor) not in seen:
                seen.add(id(tensor))
                yield _Buffer(module, key, f"{path}.{key}" if path else key)
