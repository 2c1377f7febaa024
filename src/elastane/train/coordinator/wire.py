"""Carries messages over a TCP connection: one JSON object per line, of the types that a line is made for.

``Line`` is the one decoder.  What arrives may have been written by a hostile job, or by another version of ours:

- a field that we do not know is ignored, and one that has a default may be missing (versions differ while a service is
  upgraded under running jobs);
- a type that we do not know is refused with ``UnknownTypeError``: its reader says so and goes on;
- anything else that does not fit is refused with ``BadMessageError``.

``login`` says how either side comes to trust the other before that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

MAX_LINE = 64 * 1024 * 1024
UNANSWERED_S = 15.0
"""How long what was sent may stay unacknowledged by the other machine before its line is broken."""
_IDLE_S, _PROBE_S = 5, 3
_TCP_RTO_MAX_MS, _LONGEST_RTO_MS = 44, 1000
"""What was lost is sent again each second (Linux 6.15 and later); else after 0.2, 0.6, 1.4, 3.0, 6.2 s, and a cut of
3 s could be a silence of 7."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Encode a JSON object as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of everything that is said on a line; the tag of a type is the ``type`` of its JSON object."""


class UnknownTypeError(ValueError):
    """A message has a type that this line does not know; perhaps another version does."""


class BadMessageError(ValueError):
    """What arrived is no message, or has values that nobody may send."""


Said = TypeVar("Said", bound=Message)


class Line(Generic[Said]):
    """What one side may say to the other on a kind of line.

    >>> class Wave(Message, frozen=True, tag="wave"):
    ...     hands: int = 2
    >>> waves = Line("anybody", Wave)
    >>> waves.decode(b'{"type":"wave","hands":1,"hats":0}')
    Wave(hands=1)
    >>> waves.decode(b'{"type":"wave","hands":"one"}')
    Traceback (most recent call last):
    elastane.train.coordinator.wire.BadMessageError: wave of anybody: Expected `int`, got `str` - at `$.hands`
    """

    def __init__(self, speaker: str, *types: type[Said]) -> None:
        self._speaker = speaker
        self._types = {kind.__struct_config__.tag: kind for kind in types}

    def decode(self, line: bytes) -> Said:
        """The message of a line.

        Raises:
            UnknownTypeError: its type is not one of this line's.
            BadMessageError: it is no message of ours.
        """
        document = decode(line)
        if document is None:
            raise BadMessageError(f"what {self._speaker} sent is not a message")
        return self.read(document)

    def decode_known(self, lines: Iterable[bytes]) -> Iterator[Said]:
        """The messages of lines from somebody who has proved that it is one of us.

        What does not make sense is a matter of versions: it is named on standard error, and passed over.
        """
        for line in lines:
            try:
                yield self.decode(line)
            except ValueError as error:
                print(f"elastane: passed over: {error}", file=sys.stderr)  # noqa: T201

    def read(self, document: Mapping[str, Any]) -> Said:
        """``decode`` for a JSON object."""
        name = document["type"]
        kind = self._types.get(name)
        if kind is None:
            raise UnknownTypeError(f"no such request: {name[:80]}")
        try:
            return msgspec.convert(document, kind)
        except (msgspec.ValidationError, RecursionError, OverflowError) as error:
            raise BadMessageError(f"{name} of {self._speaker}: {error!s:.200}") from error


def _plain(value: object) -> object:
    """Values of kinds that a JSON encoder takes for what they are derived from, such as numbers of NumPy."""
    for kind in (float, int, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"not a JSON value: {value!r:.80}")


def encode_message(message: Message) -> bytes:
    """One line.

    The text of JSON is the standard library's, not msgspec's: file names may be no valid Unicode, losses may be NaN.
    """
    return encode(msgspec.to_builtins(message, enc_hook=_plain, str_keys=True))


def decode(line: bytes) -> dict[str, Any] | None:
    """The JSON object with a ``type`` of a line; None for anything that is not one."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and isinstance(message.get("type"), str) else None


def address(text: str) -> tuple[str, int]:
    """``host:port`` as a pair."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def end_when_half_open(line: socket.socket, unanswered_s: float = UNANSWERED_S) -> None:
    """Have the system break a line whose other machine is gone without a word, idle or not.

    It notices machines and cables; a frozen process only once its system cannot take any more for it.
    """
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_S),
        ("TCP_KEEPINTVL", _PROBE_S),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", int(unanswered_s * 1000)),
    ):
        if hasattr(socket, name):  # not all systems have all of them
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, _LONGEST_RTO_MS)


def watch_transport(writer: asyncio.StreamWriter) -> None:
    """``end_when_half_open`` for a connection of asyncio."""
    line = writer.get_extra_info("socket")
    if line is not None:
        with contextlib.suppress(OSError):  # it may have ended already
            end_when_half_open(line)


class Connection:
    """A blocking connection that any thread may write to and one thread reads."""

    def __init__(self, host: str, port: int, timeout_s: float = 5.0) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end_when_half_open(self._socket)
        self._lock = threading.Lock()

    @property
    def line(self) -> socket.socket:
        """What it is made of, for the login."""
        return self._socket

    @property
    def own_address(self) -> str:
        """This machine's address on the way to the other one."""
        return str(self._socket.getsockname()[0])

    def fileno(self) -> int:
        """The socket's file descriptor, for ``select``."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Write one message; raises OSError when the other side is gone."""
        data = encode_message(message)
        with self._lock:
            self._socket.sendall(data)

    def messages(self, kind: Line[Said]) -> Iterator[Said]:
        """Everything that arrives and makes sense, until the connection ends."""
        return kind.decode_known(self._lines())

    def _lines(self) -> Iterator[bytes]:
        pending = b""
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            yield from lines

    def close(self) -> None:
        """End both directions; a reader in another thread wakes up."""
        with contextlib.suppress(OSError):  # already gone
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
