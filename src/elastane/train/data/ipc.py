"""Carries messages between a process and its loader processes, large tensors and arrays without a copy on arrival.

Each large part travels as its own piece of anonymous shared memory, whose descriptor is passed through the
socket: nothing has a name, so nothing is left behind by a kill, and a small tensor that is kept for long does
not keep its large neighbours.  The rest is pickled.  That is safe only because one end forked the other
and both run the same code, over a socket that has no address; never use it on a network.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import torch
from torch import Tensor

INLINE_LIMIT = 32 * 1024
"""Parts below this many bytes go through the socket; a mapping would cost more than the copy."""


Parts = list[memoryview]


def pack(message: Any) -> Parts:
    """The message as a pickled stream and the buffers it refers to; no copies of large contiguous ones."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Packer(stream, protocol=5, buffer_callback=buffers.append).dump(message)
    return [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]


def send(link: Connection, parts: Parts) -> None:
    """Send a packed message; blocks while the socket is full."""
    link.send_bytes(struct.pack(f"<{len(parts)}q", *(part.nbytes for part in parts)))
    for part in parts:
        if part.nbytes <= INLINE_LIMIT:
            link.send_bytes(part)
        else:
            _send_shared(link, part)


def receive(link: Connection) -> Any:
    """The message that was sent; its parts are writable and belong to the receiver alone.

    Raises ``ConnectionError`` when the other end has gone, be it in the middle of a message.
    """
    try:
        parts = _receive_parts(link)
    except EOFError:
        raise ConnectionResetError("the other end has gone") from None
    except OSError as error:
        # multiprocessing reports the end of a half-sent message as an OSError without a number.
        if error.errno is not None:
            raise
        raise ConnectionResetError(str(error)) from None
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301  (see above)


def _receive_parts(link: Connection) -> list[Any]:
    sizes = [size for (size,) in struct.iter_unpack("<q", link.recv_bytes())]
    return [
        bytearray(link.recv_bytes()) if size <= INLINE_LIMIT else _receive_shared(link, size) for size in sizes
    ]


class _Packer(pickle.Pickler):
    """Pickles plain CPU tensors as buffers beside the stream, as NumPy's arrays do by themselves."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not Tensor or value.layout != torch.strided or value.device.type != "cpu":
            return NotImplemented
        if value.requires_grad or value.is_quantized:
            return NotImplemented
        plain = value.resolve_conj().resolve_neg()
        # A copy keeps the order of the axes in memory (channels last) but leaves no gaps.
        dense = plain if plain.is_contiguous() else plain.clone()
        raw = dense.as_strided((dense.numel(),), (1,)).view(torch.uint8).numpy()
        return _tensor, (pickle.PickleBuffer(raw.data), value.dtype, tuple(dense.shape), dense.stride())


def _tensor(buffer: Any, dtype: torch.dtype, shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    if not memoryview(buffer).nbytes:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(buffer, dtype=dtype).as_strided(shape, stride)


def _send_shared(link: Connection, part: memoryview) -> None:
    descriptor = _anonymous_file()
    try:
        written = 0
        while written < part.nbytes:
            written += os.pwrite(descriptor, part[written:], written)
        send_handle(link, descriptor, os.getppid())
    finally:
        os.close(descriptor)


def _receive_shared(link: Connection, size: int) -> Any:
    descriptor = recv_handle(link)
    try:
        # Unlike mmap.mmap, torch's mapping holds no descriptor: a script may keep thousands of batches.
        path = f"/dev/fd/{descriptor}"
        return torch.from_file(path, shared=True, size=size, dtype=torch.uint8).numpy()
    finally:
        os.close(descriptor)


def _anonymous_file() -> int:
    memfd: Callable[[str], int] | None = getattr(os, "memfd_create", None)
    if memfd is not None:
        return memfd("elastane-batch")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
