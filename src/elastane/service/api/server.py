"""Runs the API on a socket inside an event loop of its caller, who also handles signals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from elastane.errors import ElastaneError
from elastane.service.api.connections import WaitingConnections
from elastane.service.api.context import ApiContext
from elastane.service.api.settings import ApiSettings

_GRACE_S = 3
_BACKLOG = 1024
_HANDSHAKE_S = 10.0


@contextlib.asynccontextmanager
async def serve(
    app: FastAPI,
    host: str,
    port: int,
    *,
    tls_cert: Path | str | None = None,
    tls_key: Path | str | None = None,
    insecure: bool = False,
    listening: socket.socket | None = None,
) -> AsyncIterator[str]:
    """Serve while the block runs; gives the URL.  Port 0 is any free one; ``listening`` is one that is ours already."""
    check_exposure(host, tls=tls_cert is not None, insecure=insecure)
    desk: ApiContext = app.state.desk
    config = _config(app, desk.settings, tls_cert, tls_key)
    listening = listening or bind(host, port)
    server = _Server(config)
    running = asyncio.ensure_future(server.serve([listening]))
    try:
        ready = asyncio.ensure_future(server.ready.wait())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if running.done():
            running.result()
        yield _url(host, listening.getsockname()[1], tls_cert is not None)
    finally:
        desk.closing.set()  # first the streams: the server waits for them
        server.should_exit = True
        await running
        listening.close()


def check_exposure(host: str, *, tls: bool, insecure: bool) -> None:
    """Refuse an address that others can reach, unless what they send is encrypted or the user insists."""
    if not (tls or insecure or _is_loopback(host)):
        raise ElastaneError(
            f"host: {host!r} can be reached from other machines, and tokens would travel unencrypted;"
            " give a certificate and key (TLS), or --insecure if the network is trusted"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.contextmanager
def _handshakes_within(seconds: float) -> Iterator[None]:
    """Have servers that are made meanwhile give up TLS handshakes after so long; the HTTP server has no such option."""
    loop = asyncio.get_running_loop()
    plain = loop.create_server
    loop.create_server = partial(plain, ssl_handshake_timeout=seconds)  # type: ignore[method-assign]
    try:
        yield
    finally:
        loop.create_server = plain  # type: ignore[method-assign]


class _Server(uvicorn.Server):
    """Says when it is ready, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.ssl is None:
            await super().startup(sockets)
        else:
            with _handshakes_within(_HANDSHAKE_S):
                await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(
    app: FastAPI, settings: ApiSettings, cert: Path | str | None, key: Path | str | None
) -> uvicorn.Config:
    if key is not None and cert is None:
        raise ElastaneError("tls_key: a key without a certificate; give both")
    if cert is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            raise ElastaneError(
                f"tls_cert: {cert} with key {key or cert} cannot be used: {error.strerror or error};"
                " both must be PEM files, and belong together"
            ) from None
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(settings.connections, max(1, descriptors // 2))
    # A line for every odd request would let strangers fill the disk.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return uvicorn.Config(
        app,
        http=WaitingConnections(most, settings.head_bytes, settings.head_s).protocol,
        log_config=None,
        access_log=False,  # one line per request would drown everything else; writes are in the audit log
        server_header=False,
        proxy_headers=False,  # or anybody could choose the address that the rate limit sees
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_GRACE_S,
        backlog=_BACKLOG,
        ssl_certfile=cert,
        ssl_keyfile=key,
    )


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there, or one line that says why it cannot."""
    if not 0 <= port <= 65_535:
        raise ElastaneError(f"port: {port} is not a port; choose one from 1 to 65535, or 0 for any free one")
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise ElastaneError(f"host: {host!r} is not known; give an address of this machine") from None
    listening = socket.socket(family, kind, proto)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)  # now, or a second server could still take the same port
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise ElastaneError(_why_not(error, host, port)) from None
    return listening


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port: {port} on {host} is taken; stop what listens there ('elastane down'?), or choose another --port"
    if error.errno == errno.EACCES:
        return f"port: {port} needs rights that this process does not have; choose one above 1023"
    reason = (error.strerror or str(error)).lower()
    return f"host: cannot listen on {host}:{port}: {reason}; give an address of this machine"


def _url(host: str, port: int, tls: bool) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{shown}:{port}"
