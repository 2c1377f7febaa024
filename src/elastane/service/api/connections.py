"""Connections that cost little until a whole request has arrived: its head is bounded in bytes and in time.

The HTTP server has no such limits of its own.  A header that never ends would be kept (and copied with every piece),
a head that never ends would hold its connection for ever, and nothing would keep a stranger from holding all of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from elastane.service.messages import Problem

_PIECE = 4096
"""The parser is fed so much at a time: a limit is noticed at most so many bytes late."""
_MOST_AHEAD = 16
"""Requests that may be sent before the first is answered."""
_LINGER_S = 1.0


@dataclass(slots=True)
class WaitingConnections:
    """All connections of a server that wait for a request, the one that has waited longest first."""

    most: int
    """Connections in all, those that are being answered included."""
    head_bytes: int
    head_s: float
    waiting: OrderedDict[Connection, None] = field(default_factory=OrderedDict)

    @property
    def protocol(self) -> Any:
        """What the HTTP server makes for every connection."""
        return partial(Connection, crowd=self)


class Connection(HttpToolsProtocol):
    """One client connection.  A client that sends no whole request within ``head_s`` is closed, earlier under load."""

    def __init__(self, *parts: Any, crowd: WaitingConnections, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._crowd = crowd
        self._unparsed = 0
        """Bytes since the parser told us something last: of a head, or of what may follow a body."""
        self._told = False
        self._in_head = False
        self._refused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._unsent: int | None = None

    # Of the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection.  If there are too many, the one that has waited longest for its own head is closed."""
        super().connection_made(transport)
        if len(self.connections) > self._crowd.most:
            if not self._crowd.waiting:
                self._refuse(503, "busy", "too many connections are open; try again")
                transport.close()
                return
            oldest, _ = self._crowd.waiting.popitem(last=False)
            oldest.give_up()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that was closed."""
        self._waited()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and look after every piece how much has come to nothing so far."""
        for start in range(0, len(data), _PIECE):
            if self._refused or self.transport.is_closing():
                return
            piece = data[start : start + _PIECE]
            self._told = False
            super().data_received(piece)
            self._unparsed = 0 if self._told else self._unparsed + len(piece)
            if self._unparsed > self._crowd.head_bytes:
                most = f"{self._crowd.head_bytes:,} bytes"
                self._refuse(431, "too large", f"the head of the request is larger than {most}; send less")
                self._linger()
            elif len(self.pipeline) > _MOST_AHEAD:
                self._refuse(400, "request", f"more than {_MOST_AHEAD} requests were sent before an answer")
                self._linger()

    # Of the parser.

    def on_message_begin(self) -> None:
        """Start the deadline of a request's head."""
        self._told = self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head is complete; whether and for how long its body is waited for is for the API to say."""
        self._told, self._in_head = True, False
        self._waited()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._told = True
        super().on_body(body)

    def on_response_complete(self) -> None:
        """What is sent from now on has to be a request, or the rest of one, within the usual time."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._wait()

    # Waiting for a request.

    def _wait(self) -> None:
        self._waited()
        self._crowd.waiting[self] = None
        self._deadline = self.loop.call_later(self._crowd.head_s, self.give_up)

    def _waited(self) -> None:
        self._crowd.waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def give_up(self) -> None:
        """It took too long, or others need the place; an answer that is still being read may be read to its end."""
        self._waited()
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent == self._unsent:
            self.transport.abort()
            return
        self._unsent = unsent
        if self._in_head and not self.transport.is_closing():
            self._refuse(408, "slow", "the head of the request took too long to arrive; send it again")
        self.transport.close()
        self._deadline = self.loop.call_later(self._crowd.head_s, self.give_up)

    def _refuse(self, status: int, kind: str, told: str) -> None:
        body = Problem(error=told, kind=kind).model_dump_json().encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        if (
            self.cycle is None or self.cycle.response_complete
        ):  # or it would be read as a part of another answer
            self.transport.write(head.encode() + body)

    def _linger(self) -> None:
        """Close a moment later: what was sent and not read would make the other side forget our answer."""
        self._refused = True
        self._waited()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(_LINGER_S, self.transport.close)
