"""Carries connections of fork servers and workers from a node to their supervisor on the head, through the hub.

On the node each attempt has a listener on loopback that stands for its supervisor's port.  Every connection to it
becomes a TLS connection to the hub, which splices it to that port; whoever connects still has to know the job's token.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from elastane.engines.nodes.joining import Join
from elastane.engines.nodes.line import JoinError, dial
from elastane.engines.nodes.messages import TO_NODE, Opened, TunnelHello
from elastane.train.coordinator import wire
from elastane.train.coordinator.login_reader import BUFFER_BYTES
from elastane.train.coordinator.relocation import THERE

_OPEN_S = 5.0
_LOOPBACK = "127.0.0.1"
ENDPOINT = "ELASTANE_COORDINATOR"


async def splice(
    left: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    right: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Carry bytes both ways until either side ends; then both are closed, what was read before is still delivered."""
    ways = [
        asyncio.create_task(_carry(left[0], right[1])),
        asyncio.create_task(_carry(right[0], left[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for writer in (left[1], right[1]):
            writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(BUFFER_BYTES):
            writer.write(data)
            await writer.drain()


class Tunnels:
    """The listeners of one node, by attempt."""

    def __init__(self, join: Join, session: Callable[[], str]) -> None:
        """``session`` is what the hub called the line that there is now; empty while there is none."""
        self._join = join
        self._session = session
        self._listeners: dict[str, tuple[int, asyncio.Server]] = {}
        self._open: set[asyncio.StreamWriter] = set()

    async def listen(self, attempt: str, port: int) -> dict[str, str]:
        """Listen for an attempt whose supervisor is at ``port`` on the head; what its processes have to be told."""
        known = self._listeners.get(attempt)
        if known is None or known[0] != port:
            self.close(attempt)

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._serve(port, reader, writer)

            server = await asyncio.start_server(serve, _LOOPBACK, 0, limit=BUFFER_BYTES)
            known = self._listeners[attempt] = (port, server)
        here = known[1].sockets[0].getsockname()[1]
        return {ENDPOINT: f"{_LOOPBACK}:{here}", THERE: f"{here}:{port}"}

    def close(self, attempt: str) -> None:
        """Nothing of an attempt is left: nobody will call."""
        known = self._listeners.pop(attempt, None)
        if known is not None:
            known[1].close()

    def close_all(self) -> None:
        """End all listeners, and what they carry."""
        for attempt in list(self._listeners):
            self.close(attempt)
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            session = self._session()
            if session:  # else whoever called tries again
                await self._carry(session, port, reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _carry(
        self, session: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            lines, away = await dial(self._join)
        except JoinError:
            return
        try:
            away.write(wire.encode_message(TunnelHello(session, port)))
            async with asyncio.timeout(_OPEN_S):
                first = await lines.next()
            if not first or not isinstance(TO_NODE.decode(first), Opened):
                return
            writer.write(lines.rest())
            await splice((reader, writer), (lines.stream, away))
        except (OSError, ValueError):
            return
        finally:
            away.close()
