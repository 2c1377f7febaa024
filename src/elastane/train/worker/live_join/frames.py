"""The frames of a shadow join, and their way through a socket.

A frame is a header (JSON, its length in front) and the bytes of tensors in host memory.  A frame may *lend* the
memory of the training: nothing is copied until the training needs that memory again (``copy``).

======== =============================================================================================
frame    body
======== =============================================================================================
part     one parameter: its values and its optimizer state, as of step ``step``
gradient the mean gradient of step ``step``, as far as parameters have been sent, and the settings (learning
         rate) it was applied with
end      the small rest of the state after step ``step``, and a fingerprint of some parameters to compare
======== =============================================================================================
"""

from __future__ import annotations

import json
import socket
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from elastane.train.worker.state_codec import Packed

ROLE = "shadow"
"""As which a donor logs in; both sides have the token of workers."""
LOGIN_S = 10.0
"""How long a line of the login may take."""
UNANSWERED_S = 120.0
"""How long a newcomer may take nothing: it may compute, at low priority, while its stream is full."""
PIECE_BYTES = 1 << 20
"""Sent at once: the training never waits for more than this."""


class Frame:
    """A length-prefixed header and tensors' bytes on their way; ``lent`` while they are the training's own."""

    def __init__(self, kind: str, packed: Packed, *, lent: Tensor | None = None, **facts: Any) -> None:
        tensors = [t.detach().contiguous() for t in packed.tensors.values()]
        listed = [
            [name, str(t.dtype).removeprefix("torch."), list(t.shape)]
            for name, t in zip(packed.tensors, tensors, strict=True)
        ]
        header = json.dumps({"kind": kind, **facts, "tree": packed.tree, "tensors": listed}).encode()
        bodies = [memoryview(_raw(t)) for t in tensors if t.nbytes]
        self.kind = kind
        self._left = deque([memoryview(struct.pack("<Q", len(header)) + header), *bodies])
        self._lent, self._version = lent, lent._version if lent is not None else 0
        self._copied = kind == "end"

    @property
    def nbytes(self) -> int:
        """What is left of it."""
        return sum(len(view) for view in self._left)

    @property
    def intact(self) -> bool:
        """Whether nobody has written into what was lent."""
        return self._lent is None or self._lent._version == self._version

    def send(self, connection: socket.socket) -> bool:
        """The next piece, as far as it goes without waiting; whether any went."""
        view = self._left[0]
        try:
            count = connection.send(view[:PIECE_BYTES])
        except BlockingIOError:
            return False
        if count == len(view):
            self._left.popleft()
        else:
            self._left[0] = view[count:]
        return True

    def copy(self) -> None:
        """From here on the training may write where the rest came from."""
        if not self._copied:
            self._copied = True
            self._left = deque(_copied(view) for view in self._left)
            # Whoever wrote into it before now is still found out; later writing is allowed.
            if self.intact:
                self._lent = None


def _raw(tensor: Tensor) -> Any:
    return tensor.view(-1).view(torch.uint8).numpy().data


def _copied(view: memoryview) -> memoryview:
    return memoryview(_raw(torch.frombuffer(view, dtype=torch.uint8).clone())) if view.nbytes else view


@dataclass(slots=True)
class Incoming:
    """A frame as it was received."""

    kind: str
    header: dict[str, Any]
    packed: Packed


def received(connection: socket.socket, gradients: Tensor) -> Iterator[Incoming]:
    """The frames of a connection, until it ends; each gradient is read into ``gradients``, which saves new memory."""
    while (prefix := _exactly(connection, bytearray(8))) is not None:
        text = _exactly(connection, bytearray(struct.unpack("<Q", prefix)[0]))
        header = json.loads(text) if text is not None else None
        into = gradients if header is not None and header["kind"] == "gradient" else None
        tensors = _tensors(connection, header["tensors"], into) if header is not None else None
        if header is None or tensors is None:
            break
        yield Incoming(header["kind"], header, Packed(tensors, header["tree"]))


def _tensors(connection: socket.socket, listed: list[Any], into: Tensor | None) -> dict[str, Tensor] | None:
    """The tensors of a frame, the one named ``gradient`` as the beginning of ``into``."""
    tensors: dict[str, Tensor] = {}
    for name, dtype, shape in listed:
        kept = into is not None and name == "gradient"
        tensor = (
            into[: shape[0]] if into is not None and kept else torch.empty(shape, dtype=getattr(torch, dtype))
        )
        if tensor.nbytes and _exactly(connection, _raw(tensor)) is None:
            return None
        tensors[name] = tensor
    return tensors


def _exactly(connection: socket.socket, target: Any) -> Any:
    """Fill ``target``; None if the connection ends first."""
    view, at = memoryview(target), 0
    while at < len(view):
        try:
            count = connection.recv_into(view[at:])
        except OSError:
            return None
        if not count:
            return None
        at += count
    return target
