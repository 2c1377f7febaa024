"""Both sides of a line prove that they know its token: a port that somebody else has taken is of no use to him."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elastane.engines.local.agent_messages import FROM_AGENT, EndAttempt
from elastane.engines.local.ask_agent import ask
from elastane.train.coordinator import login, wire
from elastane.train.coordinator.forkserver import ENDPOINT, NODE, TOKEN
from elastane.train.coordinator.login_reader import LineReader, admit
from elastane.train.coordinator.messages import TO_WORKER, ForkServerBeat
from elastane.train.errors import MembershipChanged
from elastane.train.worker.coordinator_client import CoordinatorClient, PlanHandlers
from elastane.train.worker.live_join import ShadowReceiver

SECRET = "the victim's token"
PATIENCE_S = 120.0


class Impostor:
    """Listens where somebody else used to, says what he likes to whoever comes, and keeps what he hears."""

    def __init__(self, *says: dict[str, Any]) -> None:
        self.heard: list[bytes] = []
        self.left = threading.Semaphore(0)
        self._says = b"".join(map(wire.encode, says))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                self._talk(line)

    def _talk(self, line: socket.socket) -> None:
        with line, contextlib.suppress(OSError):
            line.settimeout(PATIENCE_S)
            self.heard.append(line.recv(4096))
            line.sendall(self._says)
            while more := line.recv(4096):
                self.heard.append(more)
        self.left.release()

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def impostor(*says: dict[str, Any]) -> Iterator[Impostor]:
    one = Impostor(*says)
    try:
        yield one
    finally:
        one.close()
        assert SECRET.encode() not in b"".join(one.heard)


CHALLENGE = {"type": "challenge", "nonce": "0" * 32, "proof": "0" * 64}


def test_a_fork_server_does_not_obey_whoever_took_the_port_of_its_supervisor(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    order = {
        "worker": "w9",
        "script": "",
        "arguments": [],
        "environment": {},
        "log": str(tmp_path / "w9.log"),
        "directory": str(tmp_path),
        "program": ["touch", str(trace)],
    }
    code = "from elastane.train.coordinator.forkserver import ForkServer; ForkServer().serve()"
    with impostor(CHALLENGE, {"type": "spawn", "order": order}) as other:
        told = {ENDPOINT: f"127.0.0.1:{other.port}", TOKEN: SECRET, NODE: "n1"}
        fork_server = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **told})
        try:
            for _ in range(2):  # it leaves, and looks again later whether its supervisor is back
                assert other.left.acquire(timeout=PATIENCE_S)
        finally:
            fork_server.kill()
            fork_server.wait()
    assert not trace.exists()
    assert {json.loads(line)["type"] for line in other.heard} == {"login"}


@pytest.mark.parametrize("challenge", [CHALLENGE, {"type": "challenge"}, {"type": "welcome"}])
def test_a_worker_does_not_listen_to_whoever_took_the_port_of_its_supervisor(challenge: dict[str, Any]) -> None:
    with impostor(challenge, {"type": "stop", "cause": "because I say so"}) as other:
        told: list[object] = []
        client = CoordinatorClient("w1", ("127.0.0.1", other.port), SECRET, "n0")
        client.start(PlanHandlers(told.append, told.append, told.append))
        for _ in range(2):
            assert other.left.acquire(timeout=PATIENCE_S)
    assert client.stop_cause is None
    assert told == []


def test_a_question_is_not_put_to_whoever_took_the_port_of_an_agent() -> None:
    with impostor(CHALLENGE, {"type": "ok"}) as other:
        facts = {"host": "127.0.0.1", "port": other.port, "token": SECRET}
        assert asyncio.run(ask(facts, EndAttempt("j1.1"), FROM_AGENT, PATIENCE_S)) is None
    assert b"j1.1" not in b"".join(other.heard)


def test_both_sides_that_know_the_token_hear_each_other() -> None:
    async def story() -> tuple[str | None, bytes]:
        roles: list[str | None] = []
        told: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            lines = LineReader(reader)
            roles.append(await admit(lines, writer, lambda role: SECRET if role == "worker" else None))
            told.append(await lines.next())
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            connection = await asyncio.to_thread(login.connect, "127.0.0.1", port, "worker", SECRET)
            connection.send(ForkServerBeat())
            await asyncio.to_thread(list, connection.messages(TO_WORKER))
        return roles[0], told[0]

    assert asyncio.run(story()) == ("worker", wire.encode({"type": "beat"}))


def test_a_proof_is_of_no_use_elsewhere() -> None:
    """Whoever took a port could pass on what is said there to somebody who knows the token."""
    here = login.Proofs(SECRET, "nursery", 4001, "a", "b")
    others = [
        login.Proofs("another", "nursery", 4001, "a", "b"),
        login.Proofs(SECRET, "shadow", 4001, "a", "b"),
        login.Proofs(SECRET, "nursery", 4002, "a", "b"),
        login.Proofs(SECRET, "nursery", 4001, "c", "b"),
        login.Proofs(SECRET, "nursery", 4001, "a", "c"),
    ]
    assert here.accept("server", here.of("server"))
    assert not here.accept("client", here.of("server"))
    assert not any(here.accept("server", other.of("server")) for other in others)
    assert not any(here.accept("server", nonsense) for nonsense in (None, 5, "", "\ud800"))
    assert SECRET not in repr(here)


def test_a_relay_to_another_port_is_refused() -> None:
    async def story() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await admit(LineReader(reader), writer, lambda _: SECRET)
            writer.close()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there_reader, there = await asyncio.open_connection("127.0.0.1", true_port)
            there.write(await reader.readline())
            writer.write(await there_reader.readline())
            await reader.read()
            there.close()
            writer.close()

        true = await asyncio.start_server(serve, "127.0.0.1", 0)
        false = await asyncio.start_server(relay, "127.0.0.1", 0)
        true_port, false_port = (server.sockets[0].getsockname()[1] for server in (true, false))
        async with true, false:
            with pytest.raises(login.ImpostorError):
                await asyncio.to_thread(login.connect, "127.0.0.1", false_port, "nursery", SECRET)

    asyncio.run(story())


@pytest.mark.parametrize("line", [b"", b"x" * 5000, b"[" * 4000 + b"\n", SECRET.encode() + b"\n"])
def test_a_newcomer_takes_no_state_from_a_stranger(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastane.train.worker.live_join.receiver.DONOR_S", 0.5)
    receiver = ShadowReceiver("127.0.0.1", SECRET)
    with socket.create_connection(wire.address(receiver.address), timeout=PATIENCE_S) as stranger:
        stranger.sendall(line)
        stranger.shutdown(socket.SHUT_WR)
        with pytest.raises(MembershipChanged, match="only strangers came"):
            next(receiver._frames(None, None))  # type: ignore[arg-type]  # it does not come to the gradients
