"""The donor's side of a shadow join: a thread that sends this worker's state to one newcomer while it trains.

On a CPU the thread sends parameters straight from where they lie.  From a device the training thread has them copied
at boundaries, a few at a time, beside the training; its stream, not the host, waits where it would overwrite them.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from elastane.train.coordinator.login import ClientLogin, short_line
from elastane.train.coordinator.wire import address, end_when_half_open
from elastane.train.device_checks import device_of
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.worker.digest import digest
from elastane.train.worker.live_join.copy_budget import CopyBudget
from elastane.train.worker.live_join.frames import (
    LOGIN_S,
    ROLE,
    UNANSWERED_S,
    AnyHeader,
    EndHeader,
    Frame,
    GradientHeader,
    PartHeader,
)
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.state_codec import Packed, pack, start_clone
from elastane.train.worker.value_marks import ValueMarks

BACKLOG_BYTES = 2 << 30
"""Unsent frames beyond this mean that the newcomer cannot keep up."""
_FULL_MS, _IDLE_S = 10, 0.1
"""How long the thread waits for room to send, and for something to send, before it looks again."""
_YIELD_S = 0.0002


class ShadowSender:
    """The donor's side, for one newcomer."""

    def __init__(
        self,
        target: str,
        token: str,
        state: TrainingState,
        layout: GradientLayout,
        generation: int = 0,
        *,
        left_out: Callable[[], bool] = lambda: False,
    ) -> None:
        """``left_out`` says whether the step just made was none: a loss scaler found what is not finite."""
        self.generation = generation
        self.problem = ""
        self._state = state
        self._layout = layout
        self._left_out = left_out
        self._device = device_of(layout.parameters)
        self._budget = CopyBudget()
        self._copied_at: int | None = None
        self._next = 0
        self._step: int | None = None
        """The step all parameters are at; None while they are being changed."""
        self._frames: deque[Frame] = deque()
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
        if not self._device.is_cpu and step != self._copied_at and not self.problem:
            self._copied_at = step
            self._copy_parts(step)
        self._news.set()

    def yield_gradients(self) -> None:
        """The reduced gradient of the last step is about to be overwritten."""
        self._copy(GradientHeader)

    def yield_parameters(self) -> None:
        """The optimizer is about to make a step; ``applied`` follows."""
        self._look_for_changes()
        self._copy(PartHeader, parameters=True)

    def applied(self, step: int, gradient: Tensor, groups: list[dict[str, Any]]) -> None:
        """The optimizer has made this step."""
        if self._next and not self.problem and not self._left_out():
            sent = gradient[: self._layout.places[self._next - 1].stop]
            packed, absent = pack({"gradient": sent, "groups": groups}), tuple(sorted(self._layout.absent))
            self._put(self._frame(GradientHeader(step=step, absent=absent), packed, lent=gradient))
        self._marks = ValueMarks(self._layout.parameters)
        self.boundary(step)

    def _frame(self, header: AnyHeader, packed: Packed, lent: Tensor | None = None) -> Frame:
        """A frame of the state as it is now; of a device's, a copy."""
        if self._device.is_cpu:
            return Frame(header, packed, lent=lent)
        clone = start_clone(packed)
        return Frame(header, clone.packed, lent=lent, copies=clone.copies)

    def _copy_parts(self, step: int) -> None:
        """The next parameters, until the budget of this boundary is spent."""
        left = self._budget.at_boundary()
        while left > 0 and self._next < len(self._layout.places):
            frame = self._part(step)
            left = self._budget.spend(frame.size)
            self._put(frame)

    def _part(self, step: int) -> Frame:
        """The next parameter, with its optimizer state."""
        optimizer = self._state.optimizer
        assert optimizer is not None
        index, self._next = self._next, self._next + 1
        parameter = self._layout.places[index].parameter
        state = optimizer.state.get(parameter, {})
        beside = tuple(k for k, v in state.items() if isinstance(v, Tensor) and v.device == parameter.device)
        packed = pack({"values": parameter.detach(), "state": state})
        return self._frame(PartHeader(step=step, index=index, beside=beside), packed)

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
        clone = start_clone(small)
        clone.copies.hold_back()
        self._put(Frame(EndHeader(step=step, digest=marks), clone.packed, copies=clone.copies))
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

    def _put(self, frame: Frame) -> None:
        with self._training():
            self._frames.append(frame)
            waiting = sum(f.nbytes for f in self._frames)
        if waiting > BACKLOG_BYTES:
            self.problem = f"{waiting >> 20} MB wait to be sent"
        self._news.set()

    def _copy(self, kind: type[AnyHeader], *, parameters: bool = False) -> None:
        with self._training():
            if parameters:
                self._step = None
            for frame in self._frames:
                if isinstance(frame.header, kind):
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
        self._device.use()
        try:
            with socket.create_connection(address(target), timeout=10.0) as connection:
                end_when_half_open(connection, UNANSWERED_S)
                self._log_in(connection, ClientLogin(ROLE, token, address(target)[1]))
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
            connection.sendall(login.answer(short_line(connection, LOGIN_S)))

    def _send(self, connection: socket.socket, writable: select.poll) -> bool:
        """A piece of the oldest frame, or of the next parameter; whether there was anything to send."""
        while self._wanted:
            time.sleep(_YIELD_S)
        with self._lock:
            if not self._frames and not self._add_part():
                return False
            frame = self._frames[0]
            moved = frame.here and self._send_piece(frame, connection)
        if not frame.here:  # waited for without the lock, which the training may want
            self._budget.copied(frame.size, frame.arrive())
        elif not moved:
            writable.poll(_FULL_MS)
        return True

    def _send_piece(self, frame: Frame, connection: socket.socket) -> bool:
        moved = frame.send(connection)
        if not frame.intact:
            self.problem = "somebody wrote into the gradients of a step that was over"
        if not frame.nbytes:
            self._frames.popleft()
        return moved

    def _add_part(self) -> bool:
        """From a CPU: send the next parameter, unless parameters are being changed."""
        step = self._step
        if not self._device.is_cpu or step is None or self._next == len(self._layout.places):
            return False
        self._frames.append(self._part(step))
        return True
