"""One joined node as the hub knows it: its line if there is one, and the endpoint on the head that speaks for it.

The endpoint speaks the protocol of agents, so whoever asks an agent does not see the difference.  While the node is
away it answers only requests to end attempts: these are promised.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from elastane.engines.local.agent_messages import (
    FROM_AGENT,
    TO_AGENT,
    AgentBeat,
    AskAgent,
    BeginForkServer,
    EndAttempt,
    FlushLogs,
    FromAgent,
    LookAt,
    NotUnderstood,
    Ok,
    Seen,
    ShutDown,
    ToAgent,
    Watch,
)
from elastane.engines.local.json_files import read_json, write_json
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.attempt_package import package_of
from elastane.engines.nodes.hub_logs import HubLogs, LogInlet
from elastane.engines.nodes.line import NodeLine
from elastane.engines.nodes.log_parts import LogPart, job_of
from elastane.engines.nodes.messages import AttemptTold, NodeHello, Request
from elastane.engines.nodes.node_file import NodeFile, read_node, write_node
from elastane.engines.nodes.obligations import fulfilled, promise, promised
from elastane.engines.nodes.places import LOOPBACK, loopback_port
from elastane.engines.nodes.tunnels import ENDPOINT
from elastane.engines.shared_place import shared_by_all
from elastane.train.coordinator import wire
from elastane.train.coordinator.login_reader import BUFFER_BYTES, LineReader, admit

_PROBE_S = 2.0
"""How long a node may take to look at a file; one whose disk does not answer is one that sees nothing."""
SUSPECT_S = 3.0
"""A node that was silent for so long gets nothing new."""


class RemoteNode:
    """A node on another machine, present or away."""

    def __init__(self, layout: Layout, name: str, logs: HubLogs) -> None:
        self.name = name
        self.line: NodeLine | None = None
        self.session = ""
        self.file = read_node(layout, name)
        """What is known of it; None before it has joined for the first time."""
        self.tunnels: set[asyncio.StreamWriter] = set()
        self._layout = layout
        self._token = secrets.token_hex(16)
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[FromAgent | None]] = {}
        self._watchers: set[asyncio.StreamWriter] = set()
        self._waiting: set[str] = set()
        self._server: asyncio.Server | None = None
        self._begun: dict[str, int] = {}
        self._packages: dict[str, str] = {}
        """By attempt, the digest of the package that the node was told of."""
        self._logs, self._inlet = logs, LogInlet(name, logs)
        self._shipping: set[str] = set()
        """Attempts of which the node has logs that were not sent to their end."""
        self._looking = False
        """Whether it is not known yet if the node sees the head's disk."""

    @property
    def present(self) -> bool:
        """Whether it counts: it is there, and has ended what it was told to end."""
        return self.file is not None and self.file.present

    async def open(self) -> None:
        """Listen on loopback, and say where."""
        self._layout.node(self.name).mkdir(parents=True, exist_ok=True)
        known = read_json(self._layout.begun(self.name)) or {}
        self._begun = {str(attempt): int(port) for attempt, port in known.items()}
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0, limit=BUFFER_BYTES)
        if self.file is not None:
            seen_s = time.time() if self.file.present else self.file.seen_s
            self._note(msgspec.structs.replace(self.file, present=False, suspect=False, seen_s=seen_s))

    def close(self) -> None:
        """Listen no longer, and forget whoever asks; how the node is, the next hub will see."""
        self.line = None
        if self._server is not None:
            self._server.close()
        self._inlet.close()
        self._cut()

    def forget(self) -> None:
        """It said farewell: nothing of it is left, and nobody waits for it."""
        self.file = None
        self.close()
        shutil.rmtree(self._layout.node(self.name), ignore_errors=True)

    # The node's side.

    def accept(self, hello: NodeHello, line: NodeLine, end: Iterable[str], unfit: str) -> None:
        """It has come, or come back, with a new line; it counts once all ends are confirmed (and ``look_around``)."""
        if self.line is not None:
            self.line.abort()
            self._cut()
        former = self.file.former if self.file is not None else ()
        if self.file is not None and self.file.hello.incarnation != hello.incarnation:
            self.abort_tunnels()
            former = (*former, self.file.hello.incarnation)
        self.line, self.session = line, secrets.token_hex(16)
        self._waiting, self._shipping = set(end), set(hello.logs)
        self._looking = True
        self._begun = {attempt: self._begun.get(attempt, 0) for attempt in hello.attempts}
        self._write_begun()
        blind = self.file is None or self.file.blind
        self._note(NodeFile(hello, unfit=unfit, former=former, seen_s=time.time(), blind=blind))

    async def look_around(self, line: NodeLine) -> None:
        """Find out whether it sees the head's disk; only then does it count."""
        own = self._layout.jobs
        loop = asyncio.get_running_loop()

        def ask(file: Path) -> dict[str, str]:
            asked = asyncio.wait_for(self.request(LookAt(str(file))), _PROBE_S)
            answer = asyncio.run_coroutine_threadsafe(asked, loop).result(2 * _PROBE_S)
            return {self.name: answer.text if isinstance(answer, Seen) else ""}

        try:
            if not own.is_dir():
                own.mkdir()
                own.chmod(0o711)  # jobs of other users pass through
            sees = await asyncio.to_thread(shared_by_all, own, ask)
        except OSError:  # it does not answer in time, or nothing can be written here
            sees = False
        if self.line is line and self.file is not None:
            self._looking = False
            self._note(msgspec.structs.replace(self.file, blind=not sees))
            self._count_if_clean()

    async def tell_logs(self, line: NodeLine) -> None:
        """Say how far the head is with logs that the node has not sent to their end."""
        for attempt in sorted(self._shipping):
            if job_of(attempt) is not None:
                line.send(await self._logs.offsets(attempt))

    async def take(self, part: LogPart) -> None:
        """Take a part of a log, if it is of an attempt that the node has or had."""
        if part.attempt in self._begun or part.attempt in self._shipping:
            await self._inlet.take(part)

    def leaving(self, in_s: float) -> None:
        """Its machine will be taken away: this is noted where the engine reads it."""
        if self.file is not None:
            self._note(msgspec.structs.replace(self.file, leaving_s=in_s))

    def ended(self, attempt: str) -> None:
        """Nothing is left there of an attempt that had to end."""
        fulfilled(self._layout, self.name, attempt)
        self._forget_attempt(attempt)
        self._waiting.discard(attempt)
        self._count_if_clean()

    def answered(self, number: int, body: dict[str, Any]) -> None:
        """Pass an answer on to whoever asked."""
        asked = self._pending.pop(number, None)
        if asked is not None and not asked.done():
            try:
                asked.set_result(FROM_AGENT.read(body))
            except (ValueError, KeyError, TypeError) as error:
                asked.set_result(NotUnderstood(str(error)))

    def lost(self, line: NodeLine) -> None:
        """A line has ended: if it was the one there is, the node is away."""
        if self.line is not line:
            return
        self.line = None
        if line.silent:
            self.abort_tunnels()
        self._cut()
        if self.file is not None:
            self._note(msgspec.structs.replace(self.file, present=False, suspect=False, seen_s=time.time()))

    def look(self) -> None:
        """Note whether it is suspect; to be called several times a second."""
        if self.line is not None and self.file is not None:
            suspect = self.line.silent_s() > SUSPECT_S
            if suspect != self.file.suspect:
                self._note(msgspec.structs.replace(self.file, suspect=suspect))

    def away_s(self) -> float:
        """How long it has been away; 0 while it is there, or has something to end when it comes back."""
        if self.line is not None or self.file is None or promised(self._layout, self.name):
            return 0.0
        return time.time() - self.file.seen_s

    def may_reach(self, port: int) -> bool:
        """Whether a supervisor's port belongs to an attempt that was begun there."""
        return self.present and port > 0 and port in self._begun.values()

    def may_fetch(self, digest: str) -> bool:
        """Whether a package is that of an attempt that was begun there."""
        return self.present and digest in self._packages.values()

    def abort_tunnels(self) -> None:
        """End every connection that leads there."""
        for writer in self.tunnels:
            writer.transport.abort()

    def _count_if_clean(self) -> None:
        if (
            not self._waiting
            and not self._looking
            and self.line is not None
            and self.file is not None
            and not self.file.present
        ):
            self._note(msgspec.structs.replace(self.file, present=True))

    def _cut(self) -> None:
        """Whoever waits for the node learns that it is gone."""
        pending, self._pending = self._pending, {}
        for asked in pending.values():
            if not asked.done():
                asked.set_result(None)
        for writer in self._watchers:
            writer.transport.abort()
        self._watchers.clear()

    def _note(self, file: NodeFile) -> None:
        """Write down what is so now; first what it is, then whether it can be asked."""
        self.file = file
        write_node(self._layout, self.name, file)
        assert self._server is not None
        facts = {
            "host": LOOPBACK,
            "port": self._server.sockets[0].getsockname()[1],
            "token": self._token,
            "pid": 0,
            "name": file.hello.incarnation,
            "present": file.present,
        }
        write_json(self._layout.agent(self.name), facts)

    # The head's side.

    def beat(self) -> None:
        """A sign of life to whoever watches."""
        for writer in self._watchers:
            writer.write(wire.encode_message(AgentBeat()))

    def _token_of(self, role: object) -> str | None:
        return self._token if role == "client" else None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = LineReader(reader)
        wire.watch_transport(writer)
        with contextlib.suppress(OSError, ValueError):
            if await admit(lines, writer, self._token_of) is not None:
                while line := await lines.next():
                    answer = await self._hear(line, writer)
                    if answer is None:
                        break
                    writer.write(wire.encode_message(answer))
        self._watchers.discard(writer)
        writer.close()

    async def _hear(self, line: bytes, writer: asyncio.StreamWriter) -> FromAgent | None:
        """What to answer; None ends the line of whoever asks, as the end of an agent would."""
        try:
            message = TO_AGENT.decode(line)
        except wire.UnknownTypeError as error:
            return NotUnderstood(str(error))
        match message:
            case EndAttempt(attempt):
                return await self._end(attempt)
            case Watch():
                answer = await self.request(AskAgent()) if self.present else None
                if answer is not None and self.present:
                    self._watchers.add(writer)
                return answer
            case BeginForkServer() if self.present:
                self._begun[message.attempt] = loopback_port(message.environment.get(ENDPOINT, ""))
                self._write_begun()
                await self._tell(message.attempt)
                fulfilled(self._layout, self.name, message.attempt)  # the agent ends what the last one left
            case FlushLogs() if self.present:
                answer = await self.request(message)
                await self._inlet.settled()
                return answer
        return await self.request(message) if self.present or isinstance(message, ShutDown) else None

    async def _tell(self, attempt: str) -> None:
        """What the node has to know before the fork server of an attempt begins there."""
        line, file = self.line, self.file
        needed = await asyncio.to_thread(package_of, self._layout, attempt)
        shared = file is not None and not file.blind
        known = {} if shared else (await self._logs.offsets(attempt)).offsets
        if needed is not None:
            self._packages[attempt] = needed.digest
        if line is not None:
            line.send(AttemptTold(attempt, needed, known, shared))

    async def _end(self, attempt: str) -> FromAgent:
        """End an attempt there or, if the node is away or goes away meanwhile, promise to."""
        promise(self._layout, self.name, attempt)
        answer = await self.request(EndAttempt(attempt))
        if isinstance(answer, Ok):
            await self._inlet.settled()
            fulfilled(self._layout, self.name, attempt)
            self._forget_attempt(attempt)
            await self._logs.forget(attempt)
        return Ok() if answer is None else answer

    async def request(self, message: ToAgent) -> FromAgent | None:
        """Ask the node's agent; None when its line ends before it answers."""
        line = self.line
        if line is None:
            return None
        number = next(self._numbers)
        asked: asyncio.Future[FromAgent | None] = asyncio.get_running_loop().create_future()
        self._pending[number] = asked
        line.send(Request(number, msgspec.to_builtins(message, str_keys=True)))
        try:
            return await asked
        finally:
            self._pending.pop(number, None)

    def _forget_attempt(self, attempt: str) -> None:
        self._packages.pop(attempt, None)
        if self._begun.pop(attempt, None) is not None:
            self._write_begun()

    def _write_begun(self) -> None:
        write_json(self._layout.begun(self.name), self._begun, durable=True)
