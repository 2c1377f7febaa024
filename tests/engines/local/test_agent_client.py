"""Agents that die slowly, say nothing, or cannot be written down: noticed, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import errno
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elastane.engines.contract import Attempt
from elastane.engines.local import agent as agent_module
from elastane.engines.local import agent_client, attempt_process, process_descent
from elastane.engines.local.agent import Agent
from elastane.engines.local.agent_client import AgentWatch
from elastane.engines.local.agent_fork_servers import AgentForkServers
from elastane.engines.local.agent_messages import (
    FROM_AGENT,
    AgentStatus,
    AskAgent,
    BeginForkServer,
    EndAttempt,
    FromAgent,
    Limit,
    OfAttempt,
    Ok,
    Unfinished,
)
from elastane.engines.local.ask_agent import ask, end_attempt
from elastane.engines.local.cgroups import SWITCH
from elastane.engines.local.json_files import Lock, write_json
from elastane.engines.local.members_file import Members, write_members
from elastane.engines.local.paths import MEMBERS, Layout
from elastane.engines.local.survive_errors import Trouble
from elastane.engines.local.wait_until import until
from elastane.train.coordinator.login_reader import BUFFER_BYTES
from engines.local.test_upgrade_home import HOLD

PATIENCE_S = 120.0
NODE = "n0"
STATUS = AskAgent()
END = EndAttempt("j1.1")


class Spoken(Agent):
    """An agent in this process that keeps what it was told, and starts nothing but a process that sleeps."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout, NODE)
        self.told: list[OfAttempt] = []
        self.facts: dict[str, Any] = {}

    async def _answer(self, message: OfAttempt) -> FromAgent:
        self.told.append(message)
        return await super()._answer(message)

    def _spawn(self, *_: Any, **__: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "600"])

    def have(self, attempt: str) -> subprocess.Popen[bytes]:
        self._fork_servers[attempt] = self._spawn()
        return self._fork_servers[attempt]


@asynccontextmanager
async def serving(layout: Layout) -> AsyncIterator[Spoken]:
    agent = Spoken(layout)
    server = await asyncio.start_server(agent._serve, "127.0.0.1", 0, limit=BUFFER_BYTES)
    port = server.sockets[0].getsockname()[1]
    agent.facts = {"host": "127.0.0.1", "port": port, "token": agent._token, "pid": 1, "name": "a"}
    try:
        yield agent
    finally:
        server.close()
        for fork_server in agent._fork_servers.values():
            fork_server.kill()
            fork_server.wait()


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv(SWITCH, "off")
    layout = Layout(tmp_path)
    layout.node(NODE).mkdir(parents=True)
    return layout


class Slow:
    """One process below each fork server that does not die before it may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dies = False
        self.killed = asyncio.Event()
        monkeypatch.setattr(process_descent, "descendants", lambda _: [] if self.dies else [4194305])
        monkeypatch.setattr(process_descent, "ended", lambda _: False)
        monkeypatch.setattr(process_descent, "kill", lambda pids: self.killed.set() if list(pids) else None)


def live(story: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await story()

    asyncio.run(limited())


def test_an_agent_answers_others_while_an_attempt_dies_slowly(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "_END_S", PATIENCE_S)

    async def story() -> None:
        slow = Slow(monkeypatch)
        async with serving(layout) as agent:
            fork_server = agent.have("j1.1")
            ending = asyncio.create_task(ask(agent.facts, END, FROM_AGENT, PATIENCE_S))
            await slow.killed.wait()
            assert isinstance(await ask(agent.facts, STATUS, FROM_AGENT, PATIENCE_S), AgentStatus)
            assert not ending.done()  # the answer comes when all is done
            slow.dies = True
            assert await ending == Ok()
            assert fork_server.returncode == -9

    live(story)


def test_an_attempt_that_is_being_ended_begins_again_only_afterwards(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "_END_S", PATIENCE_S)
    begin = BeginForkServer("j1.1", {}, "/dev/null", cold=True)

    async def story() -> None:
        slow = Slow(monkeypatch)
        async with serving(layout) as agent:
            first = agent.have("j1.1")
            ending = asyncio.create_task(ask(agent.facts, END, FROM_AGENT, PATIENCE_S))
            await slow.killed.wait()
            beginning = asyncio.create_task(ask(agent.facts, begin, FROM_AGENT, PATIENCE_S))
            for _ in range(3):
                assert await ask(agent.facts, STATUS, FROM_AGENT, PATIENCE_S) is not None
            assert agent._fork_servers["j1.1"] is first
            slow.dies = True
            assert [await ending, await beginning] == [Ok()] * 2
            assert agent._fork_servers["j1.1"] is not first
            assert agent._fork_servers["j1.1"].poll() is None

    live(story)


def test_an_agent_does_not_wait_for_ever_and_says_what_it_could_not_end(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "_END_S", 0.05)

    async def story() -> None:
        async with serving(layout) as agent:
            fork_server = agent.have("j1.1")
            monkeypatch.setattr(fork_server, "kill", lambda: None)  # as if it hung in the kernel
            assert await ask(agent.facts, END, FROM_AGENT, PATIENCE_S) == Unfinished()
            assert not await end_attempt(agent.facts, "j1.1")
            monkeypatch.undo()
            assert await end_attempt(agent.facts, "j1.1")

    live(story)


def test_what_a_fork_server_left_is_cleared_and_its_attempt_forgotten(layout: Layout) -> None:
    async def story() -> None:
        async with serving(layout) as agent:
            agent.have("j1.1").kill()
            reaping = asyncio.create_task(agent._reap())
            assert await until(lambda: not agent._fork_servers and not agent._clearing, PATIENCE_S)
            reaping.cancel()

    live(story)


def test_a_limit_that_no_agent_heard_is_told_again(layout: Layout) -> None:
    fork_servers = AgentForkServers(layout, "j1.1", Path("/dev/null"))

    async def story() -> None:
        async with serving(layout) as agent:
            write_json(layout.agent(NODE), {**agent.facts, "token": "an earlier one's"})
            await fork_servers.limit(10**9, {NODE: 1})
            assert agent.told == []
            write_json(layout.agent(NODE), agent.facts)
            await fork_servers.limit(10**9, {NODE: 1})
            await fork_servers.limit(10**9, {NODE: 1})
            assert agent.told == [Limit("j1.1", 10**9, 1)]

    live(story)


@asynccontextmanager
async def watched(layout: Layout) -> AsyncIterator[AgentWatch]:
    watch = AgentWatch(layout, NODE, lambda: None)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_an_agent_that_accepts_and_says_nothing_is_silent(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(agent_client, "LEASE_S", 0.1)
    lock = Lock(layout.agent_lock(NODE))
    assert lock.take()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        write_json(layout.agent(NODE), {"host": "127.0.0.1", "port": port, "token": "t", "pid": 1})
        async with server, watched(layout) as watch:
            assert await until(lambda: watch._silences >= 2, PATIENCE_S)

    live(story)
    lock.release()
    assert "did not answer within 0.1 s" in caplog.text


def test_an_agent_that_never_says_where_it_listens_is_killed(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_client, "_BEGIN_S", 0.05)
    monkeypatch.setattr(AgentWatch, "_start", lambda _: None)
    lock = str(layout.agent_lock(NODE))
    holder = subprocess.Popen([sys.executable, "-c", HOLD, lock], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

        async def story() -> None:
            async with watched(layout):
                assert await until(lambda: holder.poll() is not None, PATIENCE_S)

        live(story)
        assert holder.returncode == -9
    finally:
        holder.kill()


def test_an_error_that_nobody_expected_does_not_end_the_watch(
    layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    lock = Lock(layout.agent_lock(NODE))
    assert lock.take()
    write_json(layout.agent(NODE), {"host": "127.0.0.1"})

    async def story() -> None:
        async with serving(layout) as agent, watched(layout) as watch:
            assert await until(lambda: "cannot be looked after (KeyError('port'))" in caplog.text, PATIENCE_S)
            write_json(layout.agent(NODE), agent.facts)
            assert await until(lambda: watch.alive, PATIENCE_S)

    live(story)
    lock.release()


def test_a_full_disk_does_not_end_the_limits_and_logs_of_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, limited = [True], asyncio.Event()

    def write(folder: Path, members: Members) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_members(folder, members)

    async def limit(*_: object) -> None:
        limited.set()

    monkeypatch.setattr(attempt_process, "write_members", write)
    launch = SimpleNamespace(attempt=Attempt("j1", 1), worker_memory_gb=1.0, run=tmp_path)
    choice = SimpleNamespace(kind=SimpleNamespace(value="command"), reason="")
    process: Any = SimpleNamespace(launch=launch, _choice=choice, _folder=tmp_path)
    supervisor: Any = SimpleNamespace(status=lambda: None, workers_by_node=dict)
    fork_servers: Any = SimpleNamespace(limit=limit)

    async def story() -> None:
        task = asyncio.create_task(
            attempt_process.AttemptProcess._write_members(process, supervisor, fork_servers)
        )
        await limited.wait()
        full[0] = False
        assert await until(lambda: (tmp_path / MEMBERS).exists(), PATIENCE_S)
        task.cancel()

    live(story)


def test_the_same_trouble_is_logged_once_and_again_after_it_was_over(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("writing failed")

    def turn(error: Exception | None) -> None:
        with trouble.logged():
            if error is not None:
                raise error

    with caplog.at_level(logging.ERROR):
        for error in (OSError("full"), OSError("full"), OSError("gone"), None, OSError("gone")):
            turn(error)
    assert [record.getMessage().split("'")[1] for record in caplog.records] == ["full", "gone", "gone"]
