"""JSON messages over a TCP connection, one per line; ``login`` says how either side comes to trust the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

MAX_LINE = 64 * 1024 * 1024
UNANSWERED_S = 15.0
"""How long what was sent may stay unacknowledged by the other machine before its line is broken."""
_IDLE_S, _PROBE_S = 5, 3


def encode(message: Mapping[str, Any]) -> bytes:
    """One line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """The message of a line; None for anything that is not one."""
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
        """For ``select``."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one message; raises OSError when the other side is gone."""
        data = encode(message)
        with self._lock:
            self._socket.sendall(data)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Everything that arrives, until the connection ends."""
        pending = b""
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                message = decode(line)
                if message is not None:
                    yield message

    def close(self) -> None:
        """End both directions; a reader in another thread wakes up."""
        with contextlib.suppress(OSError):  # already gone
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
