"""Around everything: the Host check, the headers of every answer, and the last line against stack traces."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elastane.service.api.authenticate import over
from elastane.service.api.errors import Refused, answer_to

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class RequestFilter:
    """An ASGI layer.  ``hosts`` are the names by which we may be called; "*" is any."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def dressed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check_host(scope)
            await self._app(scope, receive, dressed)
        except Exception as error:  # logged under an incident id
            response = answer_to(error).response()
            if not started:
                await response(scope, receive, dressed)
        finally:
            over(scope)

    def _check_host(self, scope: Scope) -> None:
        """A page on another site may point its own name at us (DNS rebinding); its requests carry that name."""
        given = [value for name, value in scope["headers"] if name == b"host"]
        host = host_name(given[0].decode("latin-1")) if len(given) == 1 else ""
        if "*" not in self._hosts and host not in self._hosts:
            told = "the Host header does not name this service; add the name to the allowed hosts"
            raise Refused(400, "host", told)


def host_name(header: str) -> str:
    """The name in a Host header, without port and brackets.

    >>> host_name("[::1]:7070"), host_name("LocalHost:80")
    ('::1', 'localhost')
    """
    if header.startswith("["):
        name, _, port = header[1:].partition("]")
        port = port.removeprefix(":")
    else:
        name, _, port = header.partition(":")
    return name.lower() if port == "" or port.isdecimal() else ""
