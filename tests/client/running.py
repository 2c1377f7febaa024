"""A real server in a thread of its own, with a network in front of it that can be told to fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elastane.service.api.app import create_app
from elastane.service.api.server import serve
from service.api.house import House


class Flaky:
    """An ASGI layer: does the next thing in ``plans`` to each request, then nothing any more.

    ``"lose"`` lets the service do its work and loses the answer, ``"cut"`` loses the request, a number answers with
    that status instead, None lets it through.
    """

    def __init__(self, app: ASGIApp, plans: list[str | int | None], seen: list[str]) -> None:
        self._app, self._plans, self._seen = app, plans, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        plan = self._plans.pop(0) if self._plans else None
        self._seen.append(f"{scope['method']} {scope['path']}")
        if plan is None:
            await self._app(scope, receive, send)
        elif isinstance(plan, int):
            headers = [(b"retry-after", b"0"), (b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": plan, "headers": headers})
            await send({"type": "http.response.body", "body": b'{"error": "not now"}'})
        else:
            if plan == "lose":
                await self._app(scope, receive, _nowhere)
            # An answer that was begun and not ended: the server closes the connection.
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})


async def _nowhere(message: Message) -> None:
    """Where answers are lost."""


class Running:
    """What a test needs of the server."""

    def __init__(self, house: House, loop: asyncio.AbstractEventLoop, url: str) -> None:
        self.house, self.url = house, url
        self._loop = loop
        self.plans: list[str | int | None] = []
        self.seen: list[str] = []

    def do(self, change: Callable[[], object]) -> None:
        """Change something in the server's thread."""
        done: Future[object] = Future()
        self._loop.call_soon_threadsafe(lambda: done.set_result(change()))
        done.result(30)


@contextmanager
def running(house: House, port: int = 0) -> Iterator[Running]:
    """Serve a house until the block ends."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = Future()
    plans: list[str | int | None] = []
    seen: list[str] = []

    async def run() -> None:
        app = create_app(house.service, house.accounts, house.settings)
        app.add_middleware(Flaky, plans=plans, seen=seen)
        stop = asyncio.Event()
        async with serve(app, "127.0.0.1", port) as url:
            started.set_result((asyncio.get_running_loop(), stop, url))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    loop, stop, url = started.result(30)
    found = Running(house, loop, url)
    found.plans, found.seen = plans, seen
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
