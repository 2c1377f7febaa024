"""Silence on a line: who falls silent is noticed, who was not listened to is not blamed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from elastane.train.coordinator import wire
from elastane.train.coordinator.actions import Finish, Kill, Spawn
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.leases import LATE_S, AwakeClock, fork_server_lease_s
from elastane.train.coordinator.login_reader import LineReader, Tokens, log_in
from elastane.train.coordinator.messages import WorkerHello
from elastane.train.coordinator.peers import Peer
from elastane.train.coordinator.plan_log import PlanLog
from elastane.train.coordinator.server import CoordinationServer
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.exit_cause import ExitCause
from train.coordinator.hosts import FakeHost

TOKENS = Tokens("t-workers", "t-clients")
PATIENCE_S = 60.0
LEASE_S = 0.5
"""The shortest that may be asked for; fork servers have three seconds."""
TOO_LONG_S = fork_server_lease_s(LEASE_S) + LATE_S


class Lines:
    """A coordinator behind a server, and lines to it that this test writes itself."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.placed = {f"w{i}": f"n{i}" for i in range(1, 20)}
        host = FakeHost(self.placed)
        self.events, self.silent = host.events, host.fell_silent
        settings = Settings(workers=workers, lease_s=30.0, replace=False)
        self.coordinator = Coordinator(settings)
        self.now_s, self.looks = 100.0, 0
        plans = PlanLog(folder / "plans.jsonl")
        self.server = CoordinationServer(self.coordinator, plans, TOKENS, host, LEASE_S, clock=self._clock)
        self._port = 0

    def _clock(self) -> float:
        """Goes only when this test says so."""
        self.looks += 1
        return self.now_s

    async def pass_time(self, seconds: float, *beating: Line) -> None:
        """The server is awake all that time; lines that beat are heard at each moment, and nothing else is said."""
        for _ in range(math.ceil(2 * seconds / LATE_S)):
            self.now_s += LATE_S / 2
            moment_s = self.server.now_s
            for line in beating:
                line.say(type="beat")
                await self.until(lambda line=line, moment_s=moment_s: self._peer(line).heard_s >= moment_s)

    async def be_suspended(self, seconds: float) -> None:
        """The server looks at its clock again and again, but not for so long."""
        self.now_s += seconds
        before = self.looks
        await self.until(lambda: self.looks > before + 4)

    def _peer(self, line: Line) -> Peer:
        return self.server._fork_servers.ready[line.node]

    async def open(self) -> None:
        self._port = await self.server.open("127.0.0.1")
        self.server.perform(self.coordinator.start(self.server.now_s))

    async def fork_server(self, node: str, **more: Any) -> Line:
        hello = {"type": "hello", "node": node, "beats": True}
        return await self._line("nursery", {**hello, "host": "10.0.0.1", "pids": {}, **more}, node)

    async def worker(self, name: str) -> Line:
        return await self._line("worker", {"type": "hello", "worker": name})

    async def _line(self, role: str, hello: dict[str, Any], node: str = "") -> Line:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        await log_in(LineReader(reader), writer, role, TOKENS.workers)
        line = Line(reader, writer, node)
        line.say(**hello)
        return line

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.02)


class Line:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str) -> None:
        self.reader, self.writer, self.node = reader, writer, node

    def say(self, **message: Any) -> None:
        self.writer.write(wire.encode(message))

    async def hear(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while line := await self.reader.readline():
                message: dict[str, Any] = json.loads(line)
                if message["type"] == kind:
                    return message
        raise AssertionError(f"the line ended without {kind}")


def _tell(folder: Path, story: Callable[[Lines], Awaitable[None]], workers: int = 2) -> None:
    async def main() -> None:
        lines = Lines(folder, workers)
        await lines.open()
        try:
            await story(lines)
        finally:
            lines.server._fork_servers.ready.clear()  # they are this test's, and would be waited for
            await lines.server.close()

    asyncio.run(main())


def test_a_fork_server_that_falls_silent_is_given_up_with_its_workers_and_the_others_stay(
    tmp_path: Path,
) -> None:
    async def story(lines: Lines) -> None:
        frozen, well = await lines.fork_server("n1"), await lines.fork_server("n2")
        for line in (frozen, well):
            line.say(type="started", worker=(await line.hear("spawn"))["order"]["worker"], pid=1)
        await lines.pass_time(TOO_LONG_S, well)
        await lines.until(lambda: not lines.coordinator.workers["w1"].alive)
        assert lines.coordinator.workers["w2"].alive
        assert lines.silent == ["n1"]
        assert "n1" not in lines.server.fork_servers
        assert any("node n1 gave no sign of life" in str(event.get("text")) for event in lines.events)
        with contextlib.suppress(ConnectionError):
            assert not await frozen.reader.read()  # its line was ended

    _tell(tmp_path, story)


def test_a_worker_that_talks_does_not_go_on_without_its_fork_server(tmp_path: Path) -> None:
    """Nobody could end it, and its place is given to another."""

    async def story(lines: Lines) -> None:
        fork_server, worker = await lines.fork_server("n1"), await lines.worker("w1")
        await fork_server.hear("spawn")
        await lines.until(lambda: "w1" in lines.server._workers)
        await lines.pass_time(TOO_LONG_S)
        assert (await worker.hear("refused"))["cause"] == "its node was lost"

    _tell(tmp_path, story, workers=1)


def test_a_fork_server_that_returns_counts_once_it_has_ended_what_was_given_up(tmp_path: Path) -> None:
    async def story(lines: Lines) -> None:
        lines.placed["w2"] = "n1"
        first = await lines.fork_server("n1")
        await first.hear("spawn")
        await lines.pass_time(TOO_LONG_S)
        await lines.until(lambda: not lines.coordinator.workers["w1"].alive)
        again = await lines.fork_server("n1", pids={"w1": 4711})
        assert (await again.hear("kill"))["worker"] == "w1"
        assert "n1" not in lines.server._fork_servers.ready
        again.say(type="exited", worker="w1", code=-9)
        assert (await again.hear("spawn"))["order"]["worker"] == "w2"

    _tell(tmp_path, story, workers=1)


def test_a_fork_server_that_promised_no_signs_of_life_is_not_asked_for_them(tmp_path: Path) -> None:
    """One of an earlier version, taken over by a new supervisor."""

    async def story(lines: Lines) -> None:
        old = await lines.fork_server("n1", beats=False)
        silent = await lines.fork_server("n2")
        await asyncio.gather(old.hear("spawn"), silent.hear("spawn"))
        await lines.pass_time(TOO_LONG_S)
        await lines.until(lambda: lines.silent == ["n2"])
        assert lines.coordinator.workers["w1"].alive

    _tell(tmp_path, story)


def test_a_supervisor_that_was_suspended_blames_nobody(tmp_path: Path) -> None:
    async def story(lines: Lines) -> None:
        fork_server = await lines.fork_server("n1")
        await fork_server.hear("spawn")
        await lines.pass_time(fork_server_lease_s(LEASE_S) - LATE_S)
        await lines.be_suspended(3600.0)
        assert lines.coordinator.workers["w1"].alive
        assert lines.silent == []
        await lines.pass_time(2 * LATE_S)  # awake again, its silence counts on
        await lines.until(lambda: lines.silent == ["n1"])

    _tell(tmp_path, story, workers=1)


def test_time_during_which_the_reader_did_not_run_is_nobodys_silence() -> None:
    now = [100.0]
    clock = AwakeClock(lambda: now[0])
    for _ in range(8):
        now[0] += LATE_S / 2
        clock.now_s()
    assert clock.now_s() == 100.0 + 4 * LATE_S
    now[0] += 3600.0  # suspended
    assert clock.now_s() == 100.0 + 4 * LATE_S
    now[0] += LATE_S
    assert clock.now_s() == 100.0 + 5 * LATE_S


def test_a_worker_that_never_says_hello_is_replaced_once_and_then_the_job_says_why() -> None:
    """The newcomer hangs in its imports, or in whatever its script does before ``et.init()``."""
    coordinator = Coordinator(Settings(workers=1, hello_s=300.0))
    assert coordinator.start(0.0)[-1] == Spawn("w1")
    assert coordinator.tick(10_000.0) == []  # it waits for a fork server, which is not its fault
    coordinator.started("w1", 10_000.0)
    assert coordinator.tick(10_299.0) == []
    actions = coordinator.tick(10_301.0)
    assert [a.worker for a in actions if isinstance(a, Kill)] == ["w1"]
    assert [a.worker for a in actions if isinstance(a, Spawn)] == ["w2"]
    coordinator.started("w2", 10_301.0)
    (end,) = [a for a in coordinator.tick(10_602.0) if isinstance(a, Finish)]
    assert end.outcome == "failed"
    assert "its process runs, but did not come to et.init() within 300 s; call it earlier" in end.cause


def test_a_newcomer_that_never_says_hello_does_not_disturb_those_who_train() -> None:
    coordinator = Coordinator(Settings(workers=1, hello_s=300.0))
    coordinator.start(0.0)
    coordinator.started("w1", 1.0)
    coordinator.hello(WorkerHello("w1", "n1"), 1.0)
    coordinator.ready("w1", {"shadow": True}, "", 1.0)
    coordinator.entered("w1", 1, 0, 1.0)
    coordinator.resize(2, 2.0)
    coordinator.started("w2", 2.0)
    coordinator.beat("w1", 1, Activity.COMPUTING, 302.5)
    actions = coordinator.tick(302.6)
    assert [a.worker for a in actions if isinstance(a, Kill)] == ["w2"]
    assert [a.worker for a in actions if isinstance(a, Spawn)] == ["w3"]
    assert coordinator.outcome is None
    assert coordinator.workers["w1"].alive


def _start_group(coordinator: Coordinator) -> None:
    coordinator.start(0.0)
    for name, host in (("w1", "10.0.0.1"), ("w2", "127.0.1.1")):
        coordinator.hello(WorkerHello(name, host=host), 1.0)
        coordinator.ready(name, {}, "", 1.0)


def test_a_first_group_that_cannot_be_connected_ends_the_job_and_names_both_addresses() -> None:
    coordinator = Coordinator(Settings(workers=2, max_apart=2))
    _start_group(coordinator)
    for generation in (1, 2):
        coordinator.apart("w1", generation, "timed out", 30.0)
        coordinator.apart("w2", generation, "timed out", 30.0)
        for name in ("w1", "w2"):
            coordinator.failed(name, generation, None, "timed out", 30.0)
    assert coordinator.outcome is not None
    assert coordinator.outcome.outcome == "failed"
    expected = "worker w1 at 10.0.0.1 could not be connected with w2 at 127.0.1.1: timed out"
    assert coordinator.outcome.cause == expected


def test_a_group_that_could_not_be_connected_because_a_member_died_is_no_reason_to_give_up() -> None:
    coordinator = Coordinator(Settings(workers=2, max_apart=2))
    _start_group(coordinator)
    coordinator.apart("w1", 1, "connection closed", 2.0)
    coordinator.exited("w2", ExitCause.of_process(-9), 2.1)
    coordinator.failed("w1", 1, None, "connection closed", 2.2)
    coordinator.hello(WorkerHello("w3"), 3.0)
    coordinator.ready("w3", {}, "", 3.0)
    coordinator.apart("w1", 2, "connection closed", 4.0)
    assert coordinator.outcome is None


def test_of_members_that_cannot_be_connected_again_one_is_given_up_and_the_others_go_on() -> None:
    coordinator = Coordinator(Settings(workers=2, max_apart=2))
    _start_group(coordinator)
    for name in ("w1", "w2"):
        coordinator.entered(name, 1, 0, 2.0)
    coordinator.failed("w1", 1, 5, "connection closed", 3.0)  # the network between them breaks
    coordinator.failed("w2", 1, 5, "connection closed", 3.0)
    for generation in (2, 3):
        coordinator.apart("w1", generation, "timed out", 30.0)
        for name in ("w1", "w2"):
            coordinator.failed(name, generation, 5, "timed out", 30.0)
    assert coordinator.outcome is None
    assert [name for name in ("w1", "w2") if coordinator.workers[name].alive] == ["w2"]
    coordinator.entered("w2", 4, 5, 31.0)
    assert coordinator.current is not None
    assert coordinator.current.members == ("w2",)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="not on this system")
def test_lines_end_when_the_other_machine_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = wire.Connection(*listener.getsockname())
        line = connection._socket
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == wire.UNANSWERED_S * 1000
        connection.close()
