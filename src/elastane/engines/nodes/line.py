"""One end of a line between a node and the hub: how it is dialled and admitted, its beats, and its lease.

Both sides send a beat each second and give the line up when nothing came for a lease, on a clock that stands still
while they do not run themselves (``leases``).  Certificates are compared by fingerprint before a word is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import socket
import sys
from collections.abc import AsyncIterator

from elastane.engines.nodes.joining import Join, client_context
from elastane.engines.nodes.messages import Beat
from elastane.engines.nodes.places import written
from elastane.errors import ElastaneError
from elastane.train.coordinator import wire
from elastane.train.coordinator.leases import BEAT_S, LEASE_S, AwakeClock
from elastane.train.coordinator.login import ClientLogin, ImpostorError, ServerLogin
from elastane.train.coordinator.login_reader import BUFFER_BYTES, STRANGER_S, LineReader
from elastane.train.coordinator.wire import Line, Message, Said

ROLE = "node"
HANDSHAKE_S = LOGIN_S = STRANGER_S / 2
"""A stranger has so long for TLS, and as long again to prove that it knows the secret."""
_DIAL_S = 10.0
_LOOK_S = 0.25
_NOBODY = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL})
_WAITING_BYTES = 1 << 17
_TCP_NOTSENT_LOWAT = 25
_NO_PORT = 0
"""What proofs name as the port: there may be forwarding in between, and the certificate says who is there."""


class JoinError(ElastaneError):
    """The hub cannot be reached, or is not the one that was meant."""


class BrokenLineError(JoinError):
    """Somebody is there, but the line broke, or took too long, before it was known who."""


class WrongHubError(JoinError):
    """Whoever is there has another certificate or another secret; dialling again will not help."""


class NodeLine:
    """Either end of a line once both sides know each other."""

    def __init__(self, lines: LineReader, writer: asyncio.StreamWriter, lease_s: float = LEASE_S) -> None:
        self.lease_s = lease_s
        self.silent = False
        """Whether it was given up because nothing came for a lease."""
        self._lines, self._writer = lines, writer
        self._clock = AwakeClock()
        self._heard_s = self._clock.now_s()
        self._hearing = False
        _keep_little_waiting(writer)

    @property
    def own_address(self) -> str:
        """This machine's address on the way to the other one."""
        return str(self._writer.get_extra_info("sockname")[0])

    def silent_s(self) -> float:
        """How long nothing has come; whoever still has what came last in hand cannot know of more."""
        return 0.0 if self._hearing else self._clock.now_s() - self._heard_s

    def send(self, message: Message) -> None:
        """Say something; nothing happens if the line is gone, which its reader notices."""
        if not self._writer.is_closing():
            self._writer.write(wire.encode_message(message))

    async def deliver(self, message: Message) -> None:
        """Send something that may be large: waits while much is still to be sent, so that beats get through.

        Raises:
            OSError: the line is broken.
        """
        if self._writer.is_closing():
            raise ConnectionResetError("the line has ended")
        self._writer.write(wire.encode_message(message))
        await self._writer.drain()

    async def first(self, kind: Line[Said]) -> Said:
        """The other side's first message, which has to come within a lease.

        Raises:
            OSError: none came.
            ValueError: it makes no sense.
        """
        async with asyncio.timeout(self.lease_s):
            line = await self._lines.next()
        if not line:
            raise ConnectionError("the line ended")
        return kind.decode(line)

    async def messages(self, kind: Line[Said]) -> AsyncIterator[Said]:
        """Everything that arrives and makes sense, until the line ends."""
        while line := await self._lines.next():
            self._heard_s = self._clock.now_s()
            for message in kind.decode_known([line]):
                self._hearing = True
                yield message
                self._hearing, self._heard_s = False, self._clock.now_s()

    async def keep(self) -> None:
        """Beat, and give the line up when the other side is silent; runs beside the reading of messages."""
        beat_s = self._clock.now_s()
        while self.silent_s() <= self.lease_s:
            if self._clock.now_s() - beat_s >= BEAT_S:
                beat_s = self._clock.now_s()
                self.send(Beat())
            await asyncio.sleep(_LOOK_S)
        self.silent = True
        self.abort()

    def abort(self) -> None:
        """End it at once, whatever was still to be sent."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """End it once all is sent, which is not waited for longer than a second."""
        self._writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self.abort()


def _keep_little_waiting(writer: asyncio.StreamWriter) -> None:
    """Have the system, and us, take little beyond what the network takes: a beat waits behind all of it."""
    writer.transport.set_write_buffer_limits(high=_WAITING_BYTES)
    line = writer.get_extra_info("socket")
    if line is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _WAITING_BYTES)


async def dial(join: Join) -> tuple[LineReader, asyncio.StreamWriter]:
    """A connection to the hub that the join string means, which knows that we know the secret.

    Raises:
        JoinError: nobody is there, or somebody else (``WrongHubError``).
    """
    at = written(join.host, join.port)
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_DIAL_S):
            reader, writer = await asyncio.open_connection(
                join.host, join.port, ssl=client_context(), limit=BUFFER_BYTES, ssl_shutdown_timeout=1.0
            )
            wire.watch_transport(writer)
            check_certificate(writer, join)
            lines = LineReader(reader)
            login = ClientLogin(ROLE, join.secret, _NO_PORT)
            writer.write(login.first())
            writer.write(login.answer(await lines.short()))
            return lines, writer
    except WrongHubError:
        _drop(writer)
        raise
    except ImpostorError as error:
        _drop(writer)
        raise WrongHubError(
            f"{at} knows another secret; 'elastane node secret' prints the right join string on the head"
        ) from error
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        _drop(writer)
        why = getattr(error, "strerror", None) or str(error) or f"no answer within {_DIAL_S:g} s"
        kind = JoinError if writer is None and _nobody(error) else BrokenLineError
        raise kind(
            f"{at} cannot be reached ({why}); is 'elastane up --listen' running there, and the port open?"
        ) from error


def _nobody(error: Exception) -> bool:
    """Whether it is certain that nobody listens there, or that there is no such place."""
    return isinstance(error, socket.gaierror) or getattr(error, "errno", None) in _NOBODY


def check_certificate(writer: asyncio.StreamWriter, join: Join) -> None:
    """Leave unless the certificate is the one that the join string names."""
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
    if hashlib.sha256(shown).hexdigest() != join.fingerprint:
        raise WrongHubError(
            f"{written(join.host, join.port)} has another certificate than the join string says; was the head set up "
            "anew? 'elastane node secret' prints the right one there; if not, somebody stands in between"
        )


def _drop(writer: asyncio.StreamWriter | None) -> None:
    if writer is not None:
        writer.transport.abort()


async def admitted(lines: LineReader, writer: asyncio.StreamWriter, secret: str) -> bool:
    """The hub's side of the login: whether the peer has proved in time that it knows the secret."""
    try:
        async with asyncio.timeout(LOGIN_S):
            login = wire.decode(await lines.short())
            if login is None or login["type"] != "login" or login.get("role") != ROLE:
                return False
            side = ServerLogin(login, secret, _NO_PORT)
            writer.write(side.challenge())
            return side.accepts(await lines.short())
    except (OSError, ValueError):
        return False
