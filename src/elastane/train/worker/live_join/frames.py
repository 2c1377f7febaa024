"""The frames of a shadow join, and their way through a socket.

A frame is a header (JSON, its length in front) and the bytes of tensors in host memory.  A frame may *lend* the
memory of the training: nothing is copied until the training needs that memory again (``copy``).  What lies on a
device is copied into the host's memory instead, and the frame has to wait until it has arrived there.

======== =============================================================================================
frame    body
======== =============================================================================================
part     one parameter: its values and its optimizer state, as of step ``step``, and which of that state
         (``beside``) lies where the parameter does: some optimizers count steps on the host
gradient the mean gradient of step ``step``, as far as parameters have been sent, and the settings (learning
         rate) it was applied with
end      the small rest of the state after step ``step``, and a fingerprint of some parameters to compare
======== =============================================================================================
"""

from __future__ import annotations

import math
import socket
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import torch
from msgspec import Meta
from msgspec.structs import replace
from torch import Tensor

from elastane.train.coordinator.wire import Line, Message, encode_message
from elastane.train.device import Device
from elastane.train.errors import MembershipChanged
from elastane.train.worker.host_copies import HostCopies
from elastane.train.worker.state_codec import Packed
from elastane.train.worker.tensor_list import Listed, listed

ROLE = "shadow"
"""As which a donor logs in; both sides have the token of workers."""
LOGIN_S = 10.0
"""How long a line of the login may take."""
UNANSWERED_S = 120.0
"""How long a newcomer may take nothing: it may compute, at low priority, while its stream is full."""
PIECE_BYTES = 1 << 20
"""Sent at once: the training never waits for more than this."""


Step = Annotated[int, Meta(ge=-1, le=2**53)]
_LARGEST_HEADER = 1 << 30


class Header(Message, frozen=True, kw_only=True):
    """What is said of every frame before its tensors come."""

    step: Step
    tree: Any = None
    tensors: tuple[Listed, ...] = ()


class PartHeader(Header, frozen=True, kw_only=True, tag="part"):
    """One parameter follows, with its optimizer state."""

    index: Annotated[int, Meta(ge=0)]
    beside: tuple[str | int, ...]


class GradientHeader(Header, frozen=True, kw_only=True, tag="gradient"):
    """The gradient of a step follows."""

    absent: tuple[int, ...] = ()
    """Parameters that had none."""


class EndHeader(Header, frozen=True, kw_only=True, tag="end"):
    """The rest of the state follows, and nothing after it."""

    digest: tuple[int, int]


AnyHeader = PartHeader | GradientHeader | EndHeader
FRAMES: Line[AnyHeader] = Line("the donor", *get_args(AnyHeader))


class Frame:
    """A length-prefixed header and tensors' bytes on their way; ``lent`` while they are the training's own."""

    def __init__(
        self,
        header: AnyHeader,
        packed: Packed,
        *,
        lent: Tensor | None = None,
        copies: HostCopies | None = None,
    ) -> None:
        tensors = [t.detach().contiguous() for t in packed.tensors.values()]
        text = encode_message(replace(header, tree=packed.tree, tensors=listed(packed.tensors)))
        bodies = [memoryview(_raw(t)) for t in tensors if t.nbytes]
        self.header = header
        self._left = deque([memoryview(struct.pack("<Q", len(text)) + text), *bodies])
        self._lent, self._version = lent, lent._version if lent is not None else 0
        self._copied = isinstance(header, EndHeader)
        self._copies, self._lends = copies, copies is None
        self.size = sum(len(body) for body in bodies)
        """Bytes of its tensors, also when they have left."""

    @property
    def nbytes(self) -> int:
        """What is left of it."""
        return sum(len(view) for view in self._left)

    @property
    def here(self) -> bool:
        """Whether all of it is in the host's memory."""
        return self._copies is None

    def arrive(self) -> float:
        """Wait until it is; returns the seconds that the device took to copy it."""
        if self._copies is None:
            return 0.0
        seconds = self._copies.copying_s()
        self._copies = None
        return seconds

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
            copies = self._copies
            if copies is not None:
                copies.hold_back()
            elif self._lends:
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

    header: AnyHeader
    packed: Packed


def received(connection: socket.socket, gradients: Tensor, device: Device) -> Iterator[Incoming]:
    """The frames of a connection, until it ends; each gradient is read into ``gradients``, which saves new memory.

    Both are in the host's memory, from which ``device`` can copy.

    Raises:
        MembershipChanged: what arrives makes no sense.
    """
    try:
        while (header := _header(connection)) is not None:
            into = gradients if isinstance(header, GradientHeader) else None
            tensors = _tensors(connection, header.tensors, into, device)
            if tensors is None:
                break
            yield Incoming(header, Packed(tensors, header.tree))
    except ValueError as error:
        raise MembershipChanged(f"the donor sends no frames: {error}") from error


def _header(connection: socket.socket) -> AnyHeader | None:
    """The header of the next frame; None if the connection ends first."""
    prefix = _exactly(connection, bytearray(8))
    if prefix is None:
        return None
    (length,) = struct.unpack("<Q", prefix)
    if length > _LARGEST_HEADER:
        raise ValueError("its header is too long")
    text = _exactly(connection, bytearray(length))
    return FRAMES.decode(bytes(text)) if text is not None else None


def _tensors(
    connection: socket.socket, listed: Iterable[Listed], into: Tensor | None, device: Device
) -> dict[str, Tensor] | None:
    """The tensors of a frame, the one named ``gradient`` as the beginning of ``into``."""
    tensors: dict[str, Tensor] = {}
    for each in listed:
        dtype = each.torch_dtype
        if into is not None and each.name == "gradient":
            tensor = into[: math.prod(each.shape)]
        else:
            tensor = device.pinned(math.prod(each.shape), dtype).view(each.shape)
        if tensor.nbytes and _exactly(connection, _raw(tensor)) is None:
            return None
        tensors[each.name] = tensor
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
