"""Joining without a stop: a newcomer follows the training until it is an exact replica, then takes part.

The donor sends each parameter with its optimizer state once, and from then on that parameter's reduced
gradients.  The newcomer applies to each parameter the gradients that came after its copy, with the same
optimizer, so its bits are the donor's.  It works for optimizers that update each parameter from that parameter's
own state and gradient alone.

Nothing is copied for it as a rule.  Parameters stand still from one optimizer step to the next, the reduced
gradient until the next backward is done, so a thread sends both straight from where they lie.  What it has not
sent when the training needs that memory again (``yield_gradients``, ``yield_parameters``) is copied then.

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

import contextlib
import json
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from elastane.train.coordinator.login import ClientLogin, ServerLogin, short_line
from elastane.train.coordinator.wire import address, decode, end_when_half_open
from elastane.train.errors import MembershipChanged
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.worker.digest import digest
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.state_codec import Packed, pack, unpack
from elastane.train.worker.value_marks import ValueMarks

PIECE_BYTES = 1 << 20
"""Sent at once: the training never waits for more than this."""
BACKLOG_BYTES = 2 << 30
"""Unsent frames beyond this mean that the newcomer cannot keep up."""
_FULL_MS, _IDLE_S = 10, 0.1
"""How long the thread waits for room to send, and for something to send, before it looks again."""
_YIELD_S = 0.0002
_LOGIN_S = 10.0
_ROLE = "shadow"
"""As which a donor logs in; both sides have the token of workers."""
_UNANSWERED_S = 120.0
"""How long a newcomer may take nothing: it may compute, at low priority, while its stream is full."""

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


class _Frame:
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


class ShadowSender:
    """The donor's side, for one newcomer."""

    def __init__(self, target: str, token: str, state: TrainingState, layout: GradientLayout) -> None:
        self.generation = 0
        self.problem = ""
        self._state = state
        self._layout = layout
        self._next = 0
        self._step: int | None = None
        """The step all parameters are at; None while they are being changed."""
        self._frames: deque[_Frame] = deque()
        self._ended = False
        self._wanted = False
        self._marks: ValueMarks | None = None
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(target, token), name="shadow-sender", daemon=True
        )
        self._thread.start()

    # Called by the training thread.

    def boundary(self, step: int) -> None:
        """Parameters are whole, as of ``step``."""
        if self._marks is None:
            self._marks = ValueMarks(self._layout.parameters)
        self._step = step
        self._news.set()

    def yield_gradients(self) -> None:
        """The reduced gradient of the last step is about to be overwritten."""
        self._copy("gradient")

    def yield_parameters(self) -> None:
        """The optimizer is about to make a step; ``applied`` follows."""
        self._look_for_changes()
        self._copy("part", parameters=True)

    def applied(self, step: int, gradient: Tensor, groups: list[dict[str, Any]]) -> None:
        """The optimizer has made this step."""
        if self._next and not self.problem:
            sent = gradient[: self._layout.places[self._next - 1].stop]
            packed, absent = pack({"gradient": sent, "groups": groups}), sorted(self._layout.absent)
            self._put(_Frame("gradient", packed, lent=gradient, step=step, absent=absent))
        self._marks = ValueMarks(self._layout.parameters)
        self.boundary(step)

    def _look_for_changes(self) -> None:
        """What the script does to parameters past the optimizer cannot be followed."""
        if self._marks is not None and not self.problem and self._marks.changed:
            self.refuse("the script changes parameters itself, between two steps")

    def finish(self, step: int) -> None:
        """The newcomer is a member from here on; returns when everything is on its way."""
        self._look_for_changes()
        if self.problem:
            return
        marks = digest(list(self._layout.parameters), step)
        small = self._state.take_small(self._layout.parameters)
        copied = Packed({name: t.detach().clone() for name, t in small.tensors.items()}, small.tree)
        self._put(_Frame("end", copied, step=step, digest=list(marks)))
        self._ended = True
        self._news.set()

    @property
    def done(self) -> bool:
        """Whether all is sent, or never will be."""
        return not self._thread.is_alive()

    def flush(self) -> None:
        """Wait until all is sent (a donor that leaves must not take its words with it)."""
        self._thread.join()

    def cancel(self) -> None:
        """The newcomer is not wanted any more."""
        self.refuse("cancelled")

    def refuse(self, why: str) -> None:
        """Nothing more is sent; a newcomer that is still wanted joins by a copy."""
        with self._training():
            self.problem = self.problem or why
            self._frames.clear()
        self._news.set()

    def _put(self, frame: _Frame) -> None:
        with self._training():
            self._frames.append(frame)
            waiting = sum(f.nbytes for f in self._frames)
        if waiting > BACKLOG_BYTES:
            self.problem = f"{waiting >> 20} MB wait to be sent"
        self._news.set()

    def _copy(self, kind: str, *, parameters: bool = False) -> None:
        with self._training():
            if parameters:
                self._step = None
            for frame in self._frames:
                if frame.kind == kind:
                    frame.copy()

    @contextlib.contextmanager
    def _training(self) -> Iterator[None]:
        """The lock, with the right of way."""
        self._wanted = True
        with self._lock:
            self._wanted = False
            yield

    # The thread.

    def _run(self, target: str, token: str) -> None:
        try:
            with socket.create_connection(address(target), timeout=10.0) as connection:
                end_when_half_open(connection, _UNANSWERED_S)
                self._log_in(connection, ClientLogin(_ROLE, token, address(target)[1]))
                connection.setblocking(False)
                writable = select.poll()
                writable.register(connection, select.POLLOUT)
                while not self.problem and not (self._ended and not self._frames):
                    self._news.clear()
                    if not self._send(connection, writable):
                        self._news.wait(_IDLE_S)
        except OSError as error:
            self.problem = self.problem or str(error)

    def _log_in(self, connection: socket.socket, login: ClientLogin) -> None:
        """A newcomer may take its time until it listens, but not longer than it is wanted."""
        connection.sendall(login.first())
        readable = select.poll()
        readable.register(connection, select.POLLIN)
        while not self.problem and not readable.poll(_IDLE_S * 1000):
            continue
        if not self.problem:
            connection.sendall(login.answer(short_line(connection, _LOGIN_S)))

    def _send(self, connection: socket.socket, writable: select.poll) -> bool:
        """A piece of the oldest frame, or of the next parameter; whether there was anything to send."""
        while self._wanted:
            time.sleep(_YIELD_S)
        with self._lock:
            if not self._frames and not self._add_part():
                return False
            frame = self._frames[0]
            moved = frame.send(connection)
            if not frame.intact:
                self.problem = "somebody wrote into the gradients of a step that was over"
            if not frame.nbytes:
                self._frames.popleft()
        if not moved:
            writable.poll(_FULL_MS)
        return True

    def _add_part(self) -> bool:
        optimizer = self._state.optimizer
        assert optimizer is not None
        if self._step is None or self._next == len(self._layout.places):
            return False
        parameter = self._layout.places[self._next].parameter
        packed = pack({"values": parameter.detach(), "state": optimizer.state.get(parameter, {})})
        self._frames.append(_Frame("part", packed, step=self._step, index=self._next))
        self._next += 1
        return True


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
        for frame in self._frames(vector.gradients):
            values: Any = unpack(frame.packed) if frame.kind != "end" else None
            step = int(frame.header["step"])
            if frame.kind == "part":
                place = layout.places[frame.header["index"]]
                with torch.no_grad():
                    place.parameter.copy_(values["values"])
                if values["state"]:
                    optimizer.state[place.parameter] = values["state"]
                since[frame.header["index"]] = step
            elif frame.kind == "gradient":
                for group, saved in zip(optimizer.param_groups, values["groups"], strict=True):
                    group.update(saved)
                absent = set(frame.header.get("absent", ()))
                for index, (place, view) in enumerate(zip(layout.places, vector.views, strict=True)):
                    ready = since.get(index, step) < step and index not in absent
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

    def _frames(self, gradients: Tensor) -> Iterator[_Incoming]:
        """Each gradient is read into ``gradients``, which saves finding new memory for it."""
        connection, _ = self._listener.accept()
        with connection:
            end_when_half_open(connection, _UNANSWERED_S)
            self._connection = connection
            if not self._trusts(connection):
                raise MembershipChanged("called off")
            while (prefix := _exactly(connection, bytearray(8))) is not None:
                text = _exactly(connection, bytearray(struct.unpack("<Q", prefix)[0]))
                header = json.loads(text) if text is not None else None
                into = gradients if header is not None and header["kind"] == "gradient" else None
                tensors = _tensors(connection, header["tensors"], into) if header is not None else None
                if header is None or tensors is None:
                    break
                yield _Incoming(header["kind"], header, Packed(tensors, header["tree"]))
        self._connection = None

    def _trusts(self, connection: socket.socket) -> bool:
        """Whether it is the donor: somebody who knows the token of this job's workers, as we do."""
        with contextlib.suppress(OSError):
            login = decode(short_line(connection, _LOGIN_S))
            if login is not None and login["type"] == "login" and login.get("role") == _ROLE:
                side = ServerLogin(login, self._token, self._listener.getsockname()[1])
                connection.sendall(side.challenge())
                return side.accepts(short_line(connection, _LOGIN_S))
        return False


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
