"""Reads lines from a peer that has to log in first, so that a stranger costs next to nothing.

Until it has proved to know the token (``login``), a connection may send two short lines and has a few seconds for
them; after that it may send lines as long as our own messages are.

Workers and clients log in with different tokens: a job has its workers' token in its environment, and must not be
able to ask its supervisor for more workers with it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from elastane.train.coordinator.login import LOGIN, LOGIN_BYTES, LOGIN_S, ClientLogin, ServerLogin
from elastane.train.coordinator.wire import MAX_LINE

STRANGER_BYTES = LOGIN_BYTES
"""Longest line of a peer that has not logged in."""
STRANGER_S = LOGIN_S
"""How long it may take until it has logged in."""
BUFFER_BYTES = 1 << 16
"""For ``asyncio.start_server``: what is read ahead of us, whatever the peer sends."""


def _new_token() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The two secrets of a job's coordinator: ``workers`` admits workers and fork servers, ``clients`` only clients."""

    workers: str = field(default_factory=_new_token, repr=False)
    clients: str = field(default_factory=_new_token, repr=False)

    def of(self, role: object) -> str | None:
        """The token that whoever comes in a role has to know; None for an unknown role."""
        if role in ("worker", "nursery"):
            return self.workers
        return self.clients if role == "client" else None


class LineReader:
    """Splits a stream into lines; those of a stranger have to be short."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._pending = bytearray()
        self._searched = 0

    async def short(self) -> bytes:
        """The next line of a peer that has not logged in yet; empty at the end.

        Raises:
            ValueError: the line is longer than any that is needed for it.
        """
        return await self._line(STRANGER_BYTES)

    async def next(self) -> bytes:
        """The next line of a peer that has logged in; empty at the end.

        Raises:
            ValueError: the line is longer than any message.
        """
        return await self._line(MAX_LINE)

    @property
    def stream(self) -> asyncio.StreamReader:
        """Where the lines come from."""
        return self._reader

    def rest(self) -> bytes:
        """What has been read beyond the last line; for a connection that carries no lines any more."""
        rest = bytes(self._pending)
        self._pending.clear()
        self._searched = 0
        return rest

    async def _line(self, longest: int) -> bytes:
        while (end := self._pending.find(b"\n", self._searched)) < 0:
            self._searched = len(self._pending)
            if self._searched > longest:
                raise ValueError("the line is too long")
            data = await self._reader.read(BUFFER_BYTES)
            if not data:
                return b""
            self._pending += data
        if end > longest:
            raise ValueError("the line is too long")
        line = bytes(self._pending[: end + 1])
        del self._pending[: end + 1]
        self._searched = 0
        return line


async def admit(
    lines: LineReader, writer: asyncio.StreamWriter, token_of: Callable[[object], str | None]
) -> str | None:
    """The server's side of a login: the role in which a peer has proved to know its token; None: send it away.

    Raises:
        OSError: the connection broke.
    """
    try:
        async with asyncio.timeout(STRANGER_S):
            login = LOGIN.decode(await lines.short())
            token = token_of(login.role)
            if token is None:
                return None
            side = ServerLogin(login, token, int(writer.get_extra_info("sockname")[1]))
            writer.write(side.challenge())
            return login.role if side.accepts(await lines.short()) else None
    except (TimeoutError, ValueError):
        return None


async def log_in(lines: LineReader, writer: asyncio.StreamWriter, role: str, token: str) -> None:
    """The client's side of a login on a connection of asyncio; the caller sets a limit to its time.

    Raises:
        OSError: the connection broke, or leads to somebody else (``ImpostorError``).
        ValueError: the other side's line is too long.
    """
    side = ClientLogin(role, token, int(writer.get_extra_info("peername")[1]))
    writer.write(side.first())
    writer.write(side.answer(await lines.short()))
