"""``Staged`` sums tensors of a device through pinned memory of the host and the worker's gloo group.

It works wherever gloo does: between parts of one GPU, over any network, and at once after a death, while a
communicator would take seconds to build.  A vector travels in buckets with two buffers in turn: while gloo sums
one bucket, the device copies the next one down.  One copy stream does all copies, so that a buffer is never
written before it has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from elastane.train.device import Device, Mark
from elastane.train.errors import MembershipChanged
from elastane.train.transports.contract import HostGroup, Pending, Transport, TransportKind
from elastane.train.transports.lane import Errand, Lane

BUCKET_BYTES = 32 << 20
_NO_BUFFERS = torch.empty(0, dtype=torch.uint8), torch.empty(0, dtype=torch.uint8)
_Exchange = Callable[[Tensor, Tensor], None]
"""A collective with an output and an input."""


class _Sum(Pending):
    def __init__(self, transport: Staged, errand: Errand[Mark]) -> None:
        self._transport, self._errand = transport, errand

    def order(self) -> None:
        self._transport.settle(self._errand)

    def finish(self) -> None:
        # No word of the device is needed: gloo has reported success, and the copy up can only succeed.
        self._transport.settle(self._errand)


class Staged(Transport):
    """Down, summed, up, bucket by bucket."""

    kind: ClassVar[TransportKind] = TransportKind.STAGED

    def __init__(self, group: HostGroup, device: Device, bucket_bytes: int = BUCKET_BYTES) -> None:
        super().__init__(group.rank, group.world)
        self._group = group
        self._device = device
        self._bucket_bytes = bucket_bytes
        stream = device.new_stream()
        if stream is None:
            raise ValueError("tensors of the host need no staging")
        self._copies: torch.Stream = stream
        self._buffers: tuple[Tensor, ...] = _NO_BUFFERS
        self._lane = Lane("staged-lane")
        self._aborted = False

    @property
    def aborted(self) -> bool:
        """Whether ``abort`` was called."""
        return self._aborted

    def reduce(self, vector: Tensor) -> Pending:
        """Begin to sum a contiguous vector."""
        ready = self._borrow(vector)
        return _Sum(self, self._lane.send(lambda: self._sum(vector.view(-1), ready)))

    def gather(self, output: Tensor, tensor: Tensor) -> Pending:
        """Through the host as a whole."""
        return self._exchange(output, tensor, self._group.all_gather)

    def swap(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> Pending:
        """Through the host as a whole."""
        return self._exchange(
            output, tensor, lambda there, here: self._group.all_to_all(there, here, output_splits, input_splits)
        )

    def settle(self, errand: Errand[Mark]) -> None:
        """Have the current stream wait for what an errand has put on the copy stream."""
        here = self._device.current_stream()
        try:
            errand.result().hold_back(here)
        except MembershipChanged:
            if here is not None:  # whoever begins again may write where copies still are under way
                here.wait_stream(self._copies)
            raise

    def abort(self) -> None:
        """Shut the group's sockets."""
        self._aborted = True
        self._group.kill()

    def close(self) -> None:
        """End the thread and give the buffers back; the group is its owner's."""
        self._lane.close()
        self._copies.synchronize()
        self._buffers = _NO_BUFFERS

    def _borrow(self, *tensors: Tensor) -> Mark:
        """The copy stream will use them; the mark is behind what the current stream does with them now."""
        for tensor in tensors:
            tensor.record_stream(self._copies)
        return self._device.mark()

    def _sum(self, vector: Tensor, ready: Mark) -> Mark:
        self._device.use()
        ready.hold_back(self._copies)
        buckets: tuple[Tensor, ...] = torch.split(vector, max(1, self._bucket_bytes // vector.element_size()))
        buffers = self._buffers_for(buckets[0], buckets[0])
        here = [buffers[i % 2][: len(bucket)] for i, bucket in enumerate(buckets)]
        came = self._down(here[0], buckets[0])
        for i, bucket in enumerate(buckets):
            arrived = came
            if i + 1 < len(buckets):
                came = self._down(here[i + 1], buckets[i + 1])
            arrived.wait()
            self._group.all_reduce(here[i])
            self._up(bucket, here[i])
        return self._device.mark(self._copies)

    def _down(self, here: Tensor, there: Tensor) -> Mark:
        with self._copies:
            here.copy_(there, non_blocking=True)
        return self._device.mark(self._copies)

    def _up(self, there: Tensor, here: Tensor) -> None:
        with self._copies:
            there.copy_(here, non_blocking=True)

    def _buffers_for(self, *tensors: Tensor) -> list[Tensor]:
        """Pinned memory of their sizes and types; what is copied down to it comes after all earlier copies up."""
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        if any(len(buffer) < size for buffer, size in zip(self._buffers, sizes, strict=True)):
            self._copies.synchronize()
            self._buffers = tuple(
                buffer if len(buffer) >= size else self._device.pinned(size, torch.uint8)
                for buffer, size in zip(self._buffers, sizes, strict=True)
            )
        return [
            buffer[:size].view(tensor.dtype)
            for buffer, size, tensor in zip(self._buffers, sizes, tensors, strict=True)
        ]

    def _exchange(self, output: Tensor, tensor: Tensor, run: _Exchange) -> Pending:
        ready = self._borrow(output, tensor)
        return _Sum(self, self._lane.send(lambda: self._through_host(output, tensor, ready, run)))

    def _through_host(self, output: Tensor, tensor: Tensor, ready: Mark, run: _Exchange) -> Mark:
        self._device.use()
        ready.hold_back(self._copies)
        sent, received = self._buffers_for(tensor, output)
        self._down(sent, tensor.view(-1)).wait()  # and so for whatever was still copied up from ``received``
        run(received, sent)
        self._up(output.view(-1), received)
        return self._device.mark(self._copies)
