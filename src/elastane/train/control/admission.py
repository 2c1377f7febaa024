"""Reads lines from a peer that has to log in first, so that a stranger costs next to nothing.

Until its first line was accepted, a connection may send one short line and has a few seconds for it; after that it
may send lines as long as our own messages are.

Workers and clients log in with different tokens: a job has its workers' token in its environment, and must not be
able to ask its supervisor for more workers with it.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import dataclass, field

from elastane.train.control.wire import MAX_LINE

STRANGER_BYTES = 4096
"""Longest line of a peer that has not logged in."""
STRANGER_S = 5.0
"""How long it may take for that line."""
BUFFER_BYTES = 1 << 16
"""For ``asyncio.start_server``: what is read ahead of us, whatever the peer sends."""


def _new_token() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The two secrets of one job's coordinator: ``workers`` admits workers and nurseries, ``clients`` only clients."""

    workers: str = field(default_factory=_new_token, repr=False)
    clients: str = field(default_factory=_new_token, repr=False)

    def roles(self, token: object) -> frozenset[str]:
        """The roles that a token admits; none for an unknown one."""
        given = token.encode("utf-8", "replace") if isinstance(token, str) else b""
        admitted: frozenset[str] = frozenset()
        if hmac.compare_digest(given, self.workers.encode()):
            admitted |= {"worker", "nursery"}
        if hmac.compare_digest(given, self.clients.encode()):
            admitted |= {"client"}
        return admitted


class LineReader:
    """Splits a stream into lines; the first one has to be short and soon."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._pending = bytearray()
        self._searched = 0

    async def first(self) -> bytes:
        """The line with which a peer logs in; empty if it sends none in time, or one that is too long."""
        try:
            async with asyncio.timeout(STRANGER_S):
                return await self._line(STRANGER_BYTES)
        except (TimeoutError, ValueError):
            return b""

    async def next(self) -> bytes:
        """The next line of a peer that has logged in; empty at the end.

        Raises:
            ValueError: the line is longer than any message.
        """
        return await self._line(MAX_LINE)

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
