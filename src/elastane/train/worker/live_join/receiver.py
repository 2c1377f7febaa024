"""The newcomer's side of a shadow join: a listening socket, and the replay of what the donor sends."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from elastane.train.coordinator.login import LOGIN, ServerLogin, short_line
from elastane.train.coordinator.wire import address, end_when_half_open
from elastane.train.device import Device
from elastane.train.device_checks import device_of
from elastane.train.errors import MembershipChanged
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.worker.digest import digest
from elastane.train.worker.live_join.frames import (
    LOGIN_S,
    ROLE,
    UNANSWERED_S,
    EndHeader,
    GradientHeader,
    Incoming,
    PartHeader,
    received,
)
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.state_codec import Packed, unpack

STRANGERS, STRANGER_S, DONOR_S = 20, 2.0, 20.0
"""How many may come before the donor, how long each may be silent, and how long after the first the donor may come."""


class _Replay:
    """Repeats the donor's optimizer steps on each parameter, from the moment that parameter was copied."""

    def __init__(self, state: TrainingState, layout: GradientLayout, apply: Callable[[], None]) -> None:
        assert state.optimizer is not None
        self.device = device_of(layout.parameters)
        self._vector = layout.vector()
        self.landing = self._landing()
        """Where gradients arrive: the vector itself, or memory that a device copies from."""
        self._state = state
        self._optimizer = state.optimizer
        self._layout = layout
        self._apply = apply
        self._since: dict[int, int] = {}

    def _landing(self) -> Tensor:
        gradients = self._vector.gradients
        return gradients if self.device.is_cpu else self.device.pinned(len(gradients), gradients.dtype)

    @property
    def has_all(self) -> bool:
        """Whether every parameter has been copied."""
        return len(self._since) == len(self._layout.places)

    def take_part(self, part: PartHeader, packed: Packed) -> None:
        """Copy one parameter and its optimizer state, as of its step."""
        values: Any = unpack(packed)
        index = part.index
        parameter = self._layout.places[index].parameter
        with torch.no_grad():
            parameter.copy_(values["values"])
        if values["state"]:
            self._optimizer.state[parameter] = {
                key: _beside(value, parameter) if key in part.beside else value
                for key, value in values["state"].items()
            }
        self._since[index] = part.step

    def repeat_step(self, sent: GradientHeader, packed: Packed) -> None:
        """Apply the gradient of a step to the parameters that were copied before it."""
        values: Any = unpack(packed)
        for group, saved in zip(self._optimizer.param_groups, values["groups"], strict=True):
            group.update({key: _beside(value, group.get(key)) for key, value in saved.items()})
        if not self.device.is_cpu:
            gradient = values["gradient"]
            # Waited for: the next gradient arrives in the same place.
            self._vector.gradients[: len(gradient)].copy_(gradient)
        absent = set(sent.absent)
        for index, (place, view) in enumerate(zip(self._layout.places, self._vector.views, strict=True)):
            ready = self._since.get(index, sent.step) < sent.step and index not in absent
            place.parameter.grad = view.to(place.parameter.dtype) if ready else None
        self._apply()

    def end(self, end: EndHeader, packed: Packed) -> None:
        """Compare fingerprints, and take over the small rest of the state."""
        if digest(list(self._layout.parameters), end.step) != end.digest:
            raise MembershipChanged("the followed state differs from the donor's")
        self._state.put_small(packed)


def _beside(value: Any, other: Any) -> Any:
    """A tensor, on the device of another."""
    return value.to(other.device) if isinstance(value, Tensor) and isinstance(other, Tensor) else value


class ShadowReceiver:
    """The newcomer's side: a listening socket, and the replay."""

    def __init__(self, host: str, token: str) -> None:
        self._token = token
        self._listener = socket.create_server((host, 0))
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._connection: socket.socket | None = None
        self._called_off = threading.Event()

    def interrupt(self) -> None:
        """End a ``follow`` that is under way (from another thread)."""
        self._called_off.set()
        connection, self._connection = self._connection, None
        for end in (connection, self._wake_connection() if connection is None else None):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _wake_connection(self) -> socket.socket | None:
        """A connection to ourselves ends an ``accept``."""
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
        replay = _Replay(state, layout, apply)
        told = False
        for frame in self._frames(replay.landing, replay.device):
            match frame.header:
                case PartHeader():
                    replay.take_part(frame.header, frame.packed)
                case GradientHeader():
                    replay.repeat_step(frame.header, frame.packed)
                case EndHeader(step=step):
                    replay.end(frame.header, frame.packed)
                    return step
            if not told and replay.has_all and not self._more():
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

    def _frames(self, gradients: Tensor, device: Device) -> Iterator[Incoming]:
        try:
            with self._donor() as connection:
                end_when_half_open(connection, UNANSWERED_S)
                yield from received(connection, gradients, device)
        finally:
            self._connection = None
            self._called_off.clear()

    def _donor(self) -> socket.socket:
        """The connection of the donor; strangers who come before are sent away.

        Raises MembershipChanged if it is called off, or there were strangers only: too many, or for too long.
        """
        self._listener.settimeout(None)
        for _ in range(STRANGERS):
            with contextlib.suppress(TimeoutError):
                connection, _address = self._listener.accept()
                connection.settimeout(None)
                self._connection = connection
                if not self._called_off.is_set() and self._trusts(connection) and not self._called_off.is_set():
                    return connection
                self._connection = None
                connection.close()
            if self._called_off.is_set():
                raise MembershipChanged("called off")
            if (
                self._listener.gettimeout() is None
            ):  # it was a stranger, or the donor went: one will come soon, or never
                deadline = time.monotonic() + DONOR_S
            left_s = deadline - time.monotonic()
            if left_s <= 0.0:
                break
            self._listener.settimeout(left_s)
        raise MembershipChanged("only strangers came to where the donor was expected")

    def _trusts(self, connection: socket.socket) -> bool:
        """Whether it is the donor: somebody who knows the token of this job's workers, as we do."""
        with contextlib.suppress(OSError, ValueError):
            login = LOGIN.decode(short_line(connection, STRANGER_S))
            if login.role == ROLE:
                side = ServerLogin(login, self._token, self._listener.getsockname()[1])
                connection.sendall(side.challenge())
                return side.accepts(short_line(connection, LOGIN_S))
        return False
