"""Joining without a stop: a newcomer follows the training until it is an exact replica, then takes part.

The donor sends each parameter with its optimizer state once, a few megabytes per step boundary so that no
step gets noticeably longer, and from the first boundary on every reduced gradient.  The newcomer applies to
each parameter the gradients that came after its copy, with the same optimizer, so its bits are the donor's.
It works for optimizers that update each parameter from that parameter's own state and gradient alone.

======== =============================================================================================
frame    body
======== =============================================================================================
part     one parameter: its values and its optimizer state, as of step ``step``
gradient the mean gradient of step ``step`` and the settings (learning rate) it was applied with
end      the small rest of the state after step ``step``, and a fingerprint of some parameters to compare
======== =============================================================================================
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from elastane.train.control.wire import address
from elastane.train.digest import digest
from elastane.train.errors import MembershipChanged
from elastane.train.packing import Packed, pack, unpack
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.state import TrainingState

CHUNK_BYTES = 16 << 20
"""What one step boundary may copy: a few milliseconds."""
BACKLOG_BYTES = 2 << 30
"""Unsent frames beyond this mean that the newcomer cannot keep up."""

FOLLOWABLE = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.Adamax,
    torch.optim.ASGD,
    torch.optim.Rprop,
)


def can_follow(optimizer: torch.optim.Optimizer | None) -> bool:
    """Whether an optimizer's updates can be repeated parameter by parameter."""
    return type(optimizer) in FOLLOWABLE


def _frame(kind: str, packed: Packed, **facts: Any) -> list[Any]:
    """A frame as buffers: length-prefixed header, then the tensors' bytes."""
    tensors = [t.detach().contiguous() for t in packed.tensors.values()]
    listed = [
        [name, str(t.dtype).removeprefix("torch."), list(t.shape)]
        for name, t in zip(packed.tensors, tensors, strict=True)
    ]
    header = json.dumps({"kind": kind, **facts, "tree": packed.tree, "tensors": listed}).encode()
    bodies = [t.view(-1).view(torch.uint8).numpy().data for t in tensors if t.nbytes]
    return [struct.pack("<Q", len(header)) + header, *bodies]


class ShadowSender:
    """The donor's side, for one newcomer."""

    def __init__(self, target: str, token: str, state: TrainingState, layout: GradientLayout) -> None:
        self.generation = 0
        self.problem = ""
        self._state = state
        self._layout = layout
        self._left = list(range(len(layout.places)))
        self._began = False
        self._backlog = 0
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[tuple[list[Any], Tensor | None] | None] = queue.SimpleQueue()
        self._spare: list[Tensor] = []
        self._thread = threading.Thread(
            target=self._run, args=(target, token), name="shadow-sender", daemon=True
        )
        self._thread.start()

    def boundary(self, step: int) -> None:
        """Copy the next few parameters as they are after ``step``."""
        budget = CHUNK_BYTES
        self._began = True
        optimizer = self._state.optimizer
        assert optimizer is not None
        while self._left and budget > 0 and not self.problem:
            index = self._left.pop(0)
            parameter = self._layout.places[index].parameter
            packed = pack({"values": parameter.detach().clone(), "state": _clone(optimizer.state[parameter])})
            self._put(_frame("part", packed, step=step, index=index))
            budget -= sum(t.nbytes for t in packed.tensors.values())

    def applied(self, step: int, gradient: Tensor, groups: list[dict[str, Any]]) -> None:
        """The optimizer has made this step."""
        if self._began and not self.problem:
            copied = self._spare.pop() if self._spare else torch.empty_like(gradient)
            copied.copy_(gradient)
            self._put(_frame("gradient", pack({"gradient": copied, "groups": groups}), step=step), copied)

    def finish(self, step: int) -> None:
        """The newcomer is a member from here on; returns when everything is on its way."""
        marks = digest(list(self._layout.parameters), step)
        small = self._state.take_small()
        copied = Packed({name: t.detach().clone() for name, t in small.tensors.items()}, small.tree)
        self._put(_frame("end", copied, step=step, digest=list(marks)))
        self._queue.put(None)

    def flush(self) -> None:
        """Wait until all is sent (a donor that leaves must not take its words with it)."""
        self._thread.join()

    def cancel(self) -> None:
        """The newcomer is not wanted any more."""
        self.problem = self.problem or "cancelled"
        self._queue.put(None)

    def _put(self, frame: list[Any], copied: Tensor | None = None) -> None:
        size = sum(len(part) for part in frame)
        with self._lock:
            self._backlog += size
            if self._backlog > BACKLOG_BYTES:
                self.problem = f"{self._backlog >> 20} MB wait to be sent"
        self._queue.put((frame, copied))

    def _run(self, target: str, token: str) -> None:
        try:
            with socket.create_connection(address(target), timeout=10.0) as connection:
                connection.settimeout(None)
                connection.sendall(token.encode() + b"\n")
                while (item := self._queue.get()) is not None and self.problem != "cancelled":
                    frame, copied = item
                    for part in frame:
                        connection.sendall(part)
                    with self._lock:
                        self._backlog -= sum(len(part) for part in frame)
                    if copied is not None:
                        self._spare.append(copied)  # warm memory: a fresh copy costs twice as much
        except OSError as error:
            self.problem = self.problem or str(error)


def _clone(state: dict[str, Any]) -> dict[str, Any]:
    return {key: v.detach().clone() if isinstance(v, Tensor) else v for key, v in state.items()}


@dataclass(slots=True)
class _Incoming:
    kind: str
    header: dict[str, Any]
    packed: Packed


class ShadowReceiver:
    """The newcomer's side: a listening socket, and the replay."""

    def __init__(self, host: str, token: str) -> None:
        self._token = token
        self._listener = socket.create_server((host, 0))
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._connection: socket.socket | None = None

    def interrupt(self) -> None:
        """End a ``follow`` that is under way (from another thread)."""
        connection, self._connection = self._connection, None
        for end in (connection, self._wake_connection() if connection is None else None):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _wake_connection(self) -> socket.socket | None:
        """A connection to ourselves without a token ends an ``accept``."""
        with contextlib.suppress(OSError):
            return socket.create_connection(address(self.address), timeout=1.0)
        return None

    def follow(
        self,
        state: TrainingState,
        layout: GradientLayout,
        apply: Callable[[], None],
        caught_up: Callable[[], None],
    ) -> int:
        """Become a replica; returns the step the state is at.  Raises MembershipChanged if it is called off."""
        optimizer = state.optimizer
        assert optimizer is not None
        vector = layout.vector()
        since: dict[int, int] = {}
        told = False
        for frame in self._frames():
            values: Any = unpack(frame.packed) if frame.kind != "end" else None
            step = int(frame.header["step"])
            if frame.kind == "part":
                place = layout.places[frame.header["index"]]
                with torch.no_grad():
                    place.parameter.copy_(values["values"])
                optimizer.state[place.parameter] = values["state"]
                since[frame.header["index"]] = step
            elif frame.kind == "gradient":
                vector.gradients.copy_(values["gradient"])
                for group, saved in zip(optimizer.param_groups, values["groups"], strict=True):
                    group.update(saved)
                for index, (place, view) in enumerate(zip(layout.places, vector.views, strict=True)):
                    ready = since.get(index, step) < step
                    place.parameter.grad = view.to(place.parameter.dtype) if ready else None
                apply()
            else:
                if list(digest(list(layout.parameters), step)) != frame.header["digest"]:
                    raise MembershipChanged("the followed state differs from the donor's")
                state.put_small(frame.packed)
                return step
            if not told and len(since) == len(layout.places) and not self._more():
                told = True
                caught_up()
        raise MembershipChanged("the donor is gone")

    def _more(self) -> bool:
        """Whether more frames have already arrived."""
        connection = self._connection
        if connection is None:
            return False
        try:
            return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False

    def _frames(self) -> Iterator[_Incoming]:
        connection, _ = self._listener.accept()
        with connection:
            self._connection = connection
            given = _exactly(connection, bytearray(len(self._token) + 1))
            if given is None or bytes(given).decode(errors="replace").strip() != self._token:
                raise MembershipChanged("called off")
            while (prefix := _exactly(connection, bytearray(8))) is not None:
                text = _exactly(connection, bytearray(struct.unpack("<Q", prefix)[0]))
                header = json.loads(text) if text is not None else None
                tensors = _tensors(connection, header["tensors"]) if header is not None else None
                if header is None or tensors is None:
                    break
                yield _Incoming(header["kind"], header, Packed(tensors, header["tree"]))
        self._connection = None


def _tensors(connection: socket.socket, listed: list[Any]) -> dict[str, Tensor] | None:
    tensors: dict[str, Tensor] = {}
    for name, dtype, shape in listed:
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        if tensor.nbytes and _exactly(connection, tensor.view(-1).view(torch.uint8).numpy().data) is None:
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
