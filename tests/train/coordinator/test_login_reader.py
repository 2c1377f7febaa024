"""Strangers at our ports: they may say little, not for long, and nothing that breaks anything."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from elastane.engines.local.agent import Agent
from elastane.engines.local.paths import Layout
from elastane.train.coordinator import login, login_reader, wire
from elastane.train.coordinator.control_file import control_of
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.plan_log import PlanLog
from elastane.train.coordinator.server import CoordinationServer
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.supervisor import JobOptions, Supervisor
from train.coordinator.hosts import FakeHost

TOKENS = login_reader.Tokens(workers="worker secret", clients="client secret")
RESIZE = wire.encode({"type": "resize", "workers": 7})
DEEP = b"[" * 3000 + b"\n"


async def _server(folder: Path) -> tuple[CoordinationServer, int]:
    server = CoordinationServer(Coordinator(Settings()), PlanLog(folder / "plans.jsonl"), TOKENS, FakeHost())
    return server, await server.open("127.0.0.1")


async def _refused(port: int, data: bytes) -> bool:
    """Whether the other side ends the connection without an answer."""
    return await _ended(*await asyncio.open_connection("127.0.0.1", port), data)


async def _ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> bool:
    try:
        writer.write(data)
        async with asyncio.timeout(60):
            return await reader.read() == b""
    except ConnectionError:
        return True
    finally:
        writer.close()


async def _logged_in(port: int, role: str, token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await login_reader.log_in(login_reader.LineReader(reader), writer, role, token)
    return reader, writer


@pytest.mark.parametrize("data", [DEEP, b"x" * (login_reader.STRANGER_BYTES * 4), b"{}\n", b"\xff\xfe\n"])
def test_a_stranger_that_talks_nonsense_is_sent_away(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def visit() -> bool:
        server, port = await _server(tmp_path)
        try:
            return await _refused(port, data)
        finally:
            await server.close()

    assert asyncio.run(visit())
    assert not caplog.records  # asyncio logs the traceback of a connection that failed


def test_a_stranger_that_says_nothing_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_reader, "STRANGER_S", 0.1)

    async def visit() -> bool:
        server, port = await _server(tmp_path)
        try:
            return await _refused(port, b"")
        finally:
            await server.close()

    assert asyncio.run(visit())


def test_the_agent_of_a_node_sends_strangers_away_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(login_reader, "STRANGER_S", 0.1)
    agent = Agent(Layout(tmp_path), "n0")

    async def visit() -> list[bool]:
        server = await asyncio.start_server(agent._serve, "127.0.0.1", 0, limit=login_reader.BUFFER_BYTES)
        port = server.sockets[0].getsockname()[1]
        async with server:
            return [await _refused(port, data) for data in (DEEP, b"x" * 20_000, b"")]

    assert asyncio.run(visit()) == [True, True, True]
    assert not caplog.records


def test_who_has_logged_in_may_send_long_lines(tmp_path: Path) -> None:
    async def visit() -> dict[str, object]:
        server, port = await _server(tmp_path)
        reader, writer = await _logged_in(port, "client", TOKENS.clients)
        try:
            writer.write(wire.encode({"type": "status", "padding": "x" * 500_000}))
            async with asyncio.timeout(60):
                answer: dict[str, object] = json.loads(await reader.readline())
            return answer
        finally:
            writer.close()
            await server.close()

    assert asyncio.run(visit())["type"] == "status"


def test_what_a_returning_worker_tells_of_itself_may_be_long(tmp_path: Path) -> None:
    """Its hello names every parameter of its model, so it comes after the login."""
    parameters = [[f"layer{i}.weight", [64, 64], "float32"] for i in range(2000)]
    hello = {"type": "hello", "worker": "w1", "signature": {"parameters": parameters}}

    async def visit() -> dict[str, object]:
        server, port = await _server(tmp_path)
        server.coordinator.start(0.0)
        reader, writer = await _logged_in(port, "worker", TOKENS.workers)
        try:
            writer.write(wire.encode(hello))
            async with asyncio.timeout(60):
                answer: dict[str, object] = json.loads(await reader.readline())
            return answer
        finally:
            writer.close()
            await server.close()

    assert asyncio.run(visit())["type"] == "welcome"


def test_nonsense_of_somebody_who_has_logged_in_ends_only_that_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hello = wire.encode({"type": "hello", "node": "n0"})

    async def visit() -> tuple[bool, bool]:
        server, port = await _server(tmp_path)
        try:
            reader, writer = await _logged_in(port, "nursery", TOKENS.workers)
            ended = await _ended(reader, writer, hello + wire.encode({"type": "started"}))
            return ended, server.finished.is_set()
        finally:
            await server.close()

    assert asyncio.run(visit()) == (True, False)
    assert not caplog.records


@pytest.mark.parametrize(("role", "token"), [("client", TOKENS.workers), ("nursery", TOKENS.clients)])
def test_each_token_admits_its_own_roles_only(tmp_path: Path, role: str, token: str) -> None:
    """A job has its workers' token in its environment: with it, it could ask for any number of workers."""
    hello = wire.encode({"type": "hello", "node": "n0"})

    async def visit() -> tuple[bool, int, list[str]]:
        server, port = await _server(tmp_path)
        try:
            with pytest.raises(login.ImpostorError):  # to us, it is the server that does not know the token
                await _logged_in(port, role, token)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(wire.encode({"type": "login", "role": role, "nonce": "mine"}))
            challenge = wire.decode(await reader.readline()) or {}
            forged = login.Proofs(token, role, port, "mine", str(challenge["nonce"])).of("client")
            forged_line = wire.encode({"type": "proof", "proof": forged})
            refused = await _ended(reader, writer, forged_line + hello + RESIZE)
            return refused, server.coordinator.target, list(server.fork_servers)
        finally:
            await server.close()

    assert asyncio.run(visit()) == (True, Settings().workers, [])


def test_a_supervisor_that_takes_over_keeps_both_tokens(tmp_path: Path) -> None:
    before = Supervisor(JobOptions(script="x.py", run=tmp_path), print, print)
    before._remember()
    after = Supervisor(JobOptions(script="x.py", run=tmp_path), print, print)
    assert after._remembered(adopt=True) == 0
    assert after._tokens == before._tokens
    assert control_of(tmp_path)["token"] == before._tokens.clients != before._tokens.workers
