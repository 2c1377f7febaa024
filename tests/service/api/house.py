"""An API with a few people and jobs in it, asked without a network."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from elastane.service.api.app import create_app
from elastane.service.api.context import ApiContext, Call
from elastane.service.api.settings import ApiSettings
from elastane.service.protocol import Principal
from service.api.fakes import FakeAccounts, FakeService, write_log

JOB = "j1"
"""A job of owner, in tenant a."""
FOREIGN_JOB = "j2"
"""A job of stranger, in tenant b."""
PEOPLE = {
    "viewer": ("viewer", "a"),
    "owner": ("user", "a"),
    "other": ("user", "a"),
    "stranger": ("user", "b"),
    "admin": ("admin", "default"),
}
ARCHIVE = b"an archive"
PACKAGE = hashlib.sha256(ARCHIVE).hexdigest()
SPEC = {"command": "python train.py"}


@functools.cache
def _built() -> FastAPI:
    """The application without anybody at its desk; building it takes longer than most tests."""
    nobody = FakeService(Path("/nonexistent"))
    return create_app(nobody, FakeAccounts(), ApiSettings())


class House:
    """Service, accounts and application together."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.service = FakeService(home)
        self.accounts = self.service.accounts = FakeAccounts()
        self.settings = ApiSettings(**settings)
        for name, (role, tenant) in PEOPLE.items():
            self.accounts.known(name, role, tenant)  # type: ignore[arg-type]
        self.submit("owner", env={"KEY": "secret"}, exported={"PATH": "/own/bin"})
        self.submit("stranger")
        write_log(self.service, JOB, "hello\n")
        write_log(self.service, FOREIGN_JOB, "foreign\n")
        self.service.packages[PACKAGE] = ARCHIVE
        self.app = _built()
        self.app.state.desk = ApiContext(self.service, self.accounts, self.settings)

    @property
    def desk(self) -> ApiContext:
        desk: ApiContext = self.app.state.desk
        return desk

    def who(self, name: str) -> Principal:
        found = self.accounts.authenticate(f"t-{name}")
        assert found is not None
        return found

    def call(self, name: str) -> Call:
        """A call as a route gets it."""
        return Call(self.desk, self.who(name), f"t-{name}")

    def submit(self, name: str, **spec: Any) -> str:
        who = self.who(name)
        return self.service.add(who, {**SPEC, "tenant": who.tenant, **spec}, "/tmp", None).id

    def ask(self, method: str, path: str, who: str | None = None, **how: Any) -> httpx.Response:
        """One request; ``who`` is the name of a person, ``json`` a body."""
        return asyncio.run(self.asking(method, path, who, **how))

    async def asking(
        self,
        method: str,
        path: str,
        who: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **how: Any,
    ) -> httpx.Response:
        sent = {"Authorization": f"Bearer t-{who}"} if who else {}
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, headers={**sent, **(headers or {})}, **how)


def status_of(
    app: FastAPI,
    method: str,
    path: str,
    token: str | None,
    body: bytes | None,
    kind: bytes = b"application/json",
) -> int:
    """The status of an answer, without waiting for its end (a stream has none)."""
    return asyncio.run(_status_of(app, method, path, token, body, kind))


async def _status_of(
    app: FastAPI, method: str, path: str, token: str | None, body: bytes | None, kind: bytes
) -> int:
    headers = [(b"host", b"localhost")]
    if token:
        headers.append((b"authorization", b"Bearer " + token.encode()))
    if body is not None:
        headers += [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    parts = [{"type": "http.request", "body": body or b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        await started
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            started.set_result(message["status"])

    await asyncio.wait_for(app(scope, receive, send), 30)
    return started.result()
