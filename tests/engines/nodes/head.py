"""A hub in this process, and nodes that are nothing but a line and what they were told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from elastane.engines.contract import Attempt
from elastane.engines.local.agent_messages import (
    FROM_AGENT,
    AgentStatus,
    AskAgent,
    BeginForkServer,
    EndAttempt,
    FromAgent,
    LookAt,
    Ok,
    Seen,
    ToAgent,
)
from elastane.engines.local.ask_agent import ask
from elastane.engines.local.json_files import read_json
from elastane.engines.local.paths import Layout
from elastane.engines.local.wait_until import until
from elastane.engines.nodes import hub, line
from elastane.engines.nodes.dialler import Dialler
from elastane.engines.nodes.hub import Hub, own_versions
from elastane.engines.nodes.hub_node import RemoteNode
from elastane.engines.nodes.joining import Join, admission
from elastane.engines.nodes.log_parts import LogOffsets
from elastane.engines.nodes.messages import PROTOCOL, AttemptTold, NodeHello
from elastane.engines.nodes.node_file import NodeFile, read_node
from elastane.engines.nodes.places import HUB

PATIENCE_S = 120.0


class Shop:
    """The work of a node that does nothing; ``ending`` keeps ends waiting while it is not set."""

    def __init__(self, name: str, incarnation: str) -> None:
        self.machine = NodeHello(
            PROTOCOL, name, incarnation, address="10.0.0.9", cores=4, versions=own_versions()
        )
        self.cluster = ""
        self.asked: list[ToAgent] = []
        self.about: list[AttemptTold] = []
        self.offsets: list[LogOffsets] = []
        self.logs: set[str] = set()
        self.breaks = 0
        self.sees = False
        self.attempts: set[str] = set()
        self.ending = asyncio.Event()
        self.ending.set()

    def hello(self, address: str) -> NodeHello:
        attempts = dict.fromkeys(self.attempts, True)
        return msgspec.structs.replace(
            self.machine, cluster=self.cluster, attempts=attempts, logs=tuple(self.logs)
        )

    def belongs_to(self, cluster: str) -> None:
        self.cluster = cluster

    async def answer(self, message: ToAgent) -> FromAgent:
        if isinstance(message, LookAt):
            return Seen(Path(message.path).read_text() if self.sees else "")
        self.asked.append(message)
        match message:
            case BeginForkServer():
                self.attempts.add(message.attempt)
            case EndAttempt(attempt):
                await self.end(attempt)
            case AskAgent():
                return AgentStatus(dict.fromkeys(sorted(self.attempts), 1))
        return Ok()

    def told(self, about: AttemptTold) -> None:
        self.about.append(about)

    async def resume_logs(self, known: LogOffsets) -> None:
        self.offsets.append(known)

    def line_broke(self) -> None:
        self.breaks += 1

    async def end(self, attempt: str) -> None:
        await self.ending.wait()
        self.attempts.discard(attempt)

    async def end_all(self) -> None:
        self.attempts.clear()


class Node:
    """A dialler with such a shop, as a task."""

    def __init__(self, join: Join, name: str, incarnation: str = "first", **options: Any) -> None:
        self.shop, self.said = Shop(name, incarnation), list[str]()
        self.dialler = Dialler(join, self.shop, self.said.append, **options)
        self.task: asyncio.Task[None] | None = None

    def dial(self) -> Node:
        self.task = asyncio.create_task(self.dialler.run())
        return self

    async def end(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])


class Head:
    """A hub on a home, and the ways to it."""

    def __init__(self, home: Path, lease_s: float) -> None:
        self.layout = Layout(home)
        self.lease_s = lease_s
        self.admits = admission(self.layout.hub)
        self.nodes: list[Node] = []
        self._hub: Hub | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        (self.layout.hub / HUB).unlink(missing_ok=True) if self._hub is None else None
        self._hub = Hub(self.layout, self.admits, self.lease_s)
        before = (self.layout.hub / HUB).stat().st_ino if (self.layout.hub / HUB).exists() else 0
        self._task = asyncio.create_task(self._hub.run("127.0.0.1:0"))
        path = self.layout.hub / HUB
        await true(lambda: path.exists() and path.stat().st_ino != before)

    async def stop(self) -> None:
        assert self._hub is not None
        assert self._task is not None
        self._hub.stop()
        await self._task

    @property
    def join(self) -> Join:
        facts = read_json(self.layout.hub / HUB)
        assert facts is not None
        return Join("127.0.0.1", int(facts["port"]), self.admits.secret, self.admits.fingerprint)

    def node(self, name: str, incarnation: str = "first", **options: Any) -> Node:
        self.nodes.append(Node(self.join, name, incarnation, **options))
        return self.nodes[-1]

    async def joined(self, name: str, incarnation: str = "first", **options: Any) -> Node:
        node = self.node(name, incarnation, **options).dial()
        await true(lambda: self.present(name) and self.file(name).hello.incarnation == incarnation)
        await true(lambda: bool(node.dialler.session))
        return node

    def file(self, name: str) -> NodeFile:
        file = read_node(self.layout, name)
        assert file is not None
        return file

    def present(self, name: str) -> bool:
        file = read_node(self.layout, name)
        return file is not None and file.present

    async def ask(self, name: str, message: ToAgent) -> FromAgent | None:
        """As supervisors and the control plane do."""
        facts = read_json(self.layout.agent(name))
        assert facts is not None
        return await ask(facts, message, FROM_AGENT, PATIENCE_S)

    def remote(self, name: str) -> RemoteNode:
        """As the hub knows it."""
        assert self._hub is not None
        return self._hub._nodes[name]

    def attempt(self, name: str) -> Path:
        """One that the head knows of."""
        job, _, number = name.rpartition(".")
        folder = self.layout.attempt(Attempt(job, int(number)))
        folder.mkdir(parents=True)
        return folder


def begin(attempt: str, port: int = 4711) -> BeginForkServer:
    return BeginForkServer(attempt, {"ELASTANE_COORDINATOR": f"127.0.0.1:{port}"}, "/log", False)


async def true(condition: Callable[[], bool]) -> None:
    assert await until(condition, PATIENCE_S)


def story(home: Path, tell: Callable[[Head], Awaitable[None]], lease_s: float = PATIENCE_S) -> None:
    """Run a story that begins with a hub; at its end all have left."""

    async def main() -> None:
        async with asyncio.timeout(2 * PATIENCE_S), told(home, lease_s) as head:
            await tell(head)

    asyncio.run(main())


@asynccontextmanager
async def told(home: Path, lease_s: float) -> AsyncIterator[Head]:
    head = Head(home, lease_s)
    # A machine that is busy must not be too slow for us, unless that is what a test is about.
    before = hub.HANDSHAKE_S, line.LOGIN_S, line._DIAL_S
    if before[0] == line.STRANGER_S / 2:
        hub.HANDSHAKE_S = line.LOGIN_S = PATIENCE_S / 2
    line._DIAL_S = PATIENCE_S
    await head.start()
    try:
        yield head
    finally:
        for node in head.nodes:
            await node.end()
        with contextlib.suppress(AssertionError):
            await head.stop()
        hub.HANDSHAKE_S, line.LOGIN_S, line._DIAL_S = before
