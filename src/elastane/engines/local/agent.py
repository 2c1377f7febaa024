"""The process of one node: it owns the fork servers of all attempts there, and with them every worker.

It lives in a session of its own, so that the control plane may come and go.  When it dies, everything on its node
dies with it (each fork server is on its agent's leash, each worker on its fork server's), which is what the loss of a
machine looks like.  It keeps one fork server warm in advance, so that a job need not wait for PyTorch to be imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from weakref import WeakValueDictionary

from elastane.engines.local.agent_messages import (
    TO_AGENT,
    AgentBeat,
    AgentStatus,
    AskAgent,
    AskHope,
    BeginForkServer,
    EndAttempt,
    FlushLogs,
    FromAgent,
    Limit,
    LookAt,
    NotUnderstood,
    OfAttempt,
    Ok,
    ShutDown,
    ToAgent,
    Unfinished,
    Unlimited,
    Watch,
)
from elastane.engines.local.foreign_interpreters import Strangers, around, born_alike
from elastane.engines.local.json_files import Lock, write_json
from elastane.engines.local.marked_processes import MARK, Mark, kill_marked
from elastane.engines.local.paths import Layout
from elastane.engines.local.process_containment import Enclosure, end_leftovers
from elastane.engines.local.survive_errors import Trouble
from elastane.engines.local.wait_until import until
from elastane.train.coordinator import wire
from elastane.train.coordinator.forkserver import LEASHED, WAITING
from elastane.train.coordinator.job_user import Become, Identity
from elastane.train.coordinator.leases import BEAT_S
from elastane.train.coordinator.login_reader import BUFFER_BYTES, LineReader, admit
from elastane.train.coordinator.script_runner import set_death_signal
from elastane.train.coordinator.spawners import fork_server_command

SPARE = "-"
"""The attempt of a fork server that does not know its own yet."""
_REAP_S = 0.25
_END_S = 3.0
"""How long each step of ending an attempt may take; what takes longer is left to the next one who looks."""
JOBS_YIELD = 5
"""Niceness that jobs run with above their agent's, so that the service answers in time beside jobs on every core."""
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Agent:
    """Starts, limits and ends the fork servers of one node, as it is asked to."""

    def __init__(self, layout: Layout, node: str, *, alone: bool = False) -> None:
        """``alone``: nothing else goes on in this process, so it may adopt orphans."""
        self._alone = alone
        self._layout = layout
        self._node = node
        self._name = secrets.token_hex(8)
        self._token = secrets.token_hex(16)
        self._fork_servers: dict[str, subprocess.Popen[bytes]] = {}
        self._strangers = Strangers()
        self._spare: subprocess.Popen[bytes] | None = None
        self._over = asyncio.Event()
        self._watchers: set[asyncio.StreamWriter] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._clearing: dict[str, asyncio.Task[None]] = {}
        self._trouble = Trouble(f"node {node}: what ended is not cleared up")

    @cached_property
    def _enclosure(self) -> Enclosure:
        """What keeps our processes together; made when the agent begins, which ends what the last one left."""
        return Enclosure(self._layout, self._node, adopts=self._alone)

    async def run(self) -> None:
        """Until somebody says stop."""
        kill_marked(self._layout.home, lambda mark: mark.node == self._node)
        self._enclosure.note(())
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=BUFFER_BYTES)
        port = server.sockets[0].getsockname()[1]
        facts = {
            "host": "127.0.0.1",
            "port": port,
            "token": self._token,
            "pid": os.getpid(),
            "name": self._name,
        }
        self._keep_one_warm()
        write_json(self._layout.agent(self._node), facts)
        tasks = [asyncio.create_task(work) for work in (self._reap(), self._beat())]
        await self._over.wait()
        for task in (*tasks, *self._clearing.values()):
            task.cancel()
        server.close()
        self._layout.agent(self._node).unlink(missing_ok=True)
        await asyncio.gather(*(self._end_alone(attempt) for attempt in [*self._fork_servers, SPARE]))
        kill_marked(self._layout.home, lambda mark: mark.agent == self._name)
        end_leftovers(self._layout, self._node)

    def stop(self) -> None:
        """Leave, and take everything along."""
        self._over.set()

    @property
    def name(self) -> str:
        """The random name of this agent, which the next one on its node does not have: its incarnation."""
        return self._name

    @property
    def attempts(self) -> list[str]:
        """The attempts that have a fork server here."""
        return list(self._fork_servers)

    @property
    def fork_server_pids(self) -> dict[str, int]:
        """Living fork servers, whose children are workers; one without any may stay while its attempt runs on."""
        return {a: server.pid for a, server in self._fork_servers.items() if server.returncode is None}

    async def answer(self, message: ToAgent) -> FromAgent:
        """What a request on the agent's own line would be answered."""
        return await self._answer_in_turn(message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = LineReader(reader)
        wire.watch_transport(writer)
        with contextlib.suppress(OSError, ValueError):
            if await admit(lines, writer, self._token_of) is not None:
                while line := await lines.next():
                    writer.write(wire.encode_message(await self._hear(line, writer)))
        self._watchers.discard(writer)
        writer.close()

    async def _hear(self, line: bytes, writer: asyncio.StreamWriter) -> FromAgent:
        try:
            message = TO_AGENT.decode(line)
        except wire.UnknownTypeError as error:
            return NotUnderstood(str(error))
        if isinstance(message, Watch):
            self._watchers.add(writer)
        return await self._answer_in_turn(message)

    async def _beat(self) -> None:
        """Signs of life for whoever watches, from the loop that does the work."""
        beat = wire.encode_message(AgentBeat())
        while True:
            await asyncio.sleep(BEAT_S)
            for writer in self._watchers:
                writer.write(beat)

    def _token_of(self, role: object) -> str | None:
        return self._token if role == "client" else None

    async def _answer_in_turn(self, message: ToAgent) -> FromAgent:
        """Answer; what is asked about an attempt that is being ended waits until that is done."""
        match message:
            case AskAgent() | Watch():
                fork_servers = {attempt: fork_server.pid for attempt, fork_server in self._fork_servers.items()}
                return AgentStatus(fork_servers, self._spare.pid if self._spare is not None else None)
            case ShutDown():
                self._over.set()
                return Ok()
            case LookAt() | FlushLogs():
                return Ok()  # we are on the head: its disk is ours, and logs are where they shall be
            case _:
                async with self._lock(message.attempt):
                    return await self._answer(message)

    def _lock(self, attempt: str) -> asyncio.Lock:
        """Whoever begins, limits or ends an attempt has it."""
        return self._locks.setdefault(attempt, asyncio.Lock())

    async def _answer(self, message: OfAttempt) -> FromAgent:
        match message:
            case BeginForkServer():
                return await self._begin(message)
            case AskHope(attempt):
                return self._strangers.answer(attempt)
            case Limit(attempt, memory, workers):
                return Ok() if self._enclosure.limit(attempt, memory, workers) else Unlimited()
            case EndAttempt(attempt):
                if not await self._end(attempt):
                    return Unfinished()
                self._strangers.forget(attempt)
                return Ok()

    async def _begin(self, wanted: BeginForkServer) -> FromAgent:
        """Have a fork server for an attempt, or say why its interpreter can be none."""
        attempt = wanted.attempt
        last = self._fork_servers.get(attempt)
        if last is not None and last.poll() is not None:
            self._strangers.ended(attempt, last.returncode)
        if not self._strangers.hopeless(attempt) and not self._over.is_set():
            self._strangers.begins(attempt, wanted.python, wanted.log)
            try:
                await self._start(wanted)
            except OSError as error:
                if not self._strangers.failed(attempt, error):
                    raise
        return self._strangers.answer(attempt)

    async def _end_alone(self, attempt: str) -> None:
        async with self._lock(attempt):
            await self._end(attempt)

    async def _end(self, attempt: str) -> bool:
        """All that works for an attempt, whatever it has become, before anybody is told; whether its fork server ended.

        The loop goes on meanwhile: signs of life must not wait for processes that die slowly.  No thread does it: a
        fork server that is just being started would be a stray to it.
        """
        fork_server = self._spare if attempt == SPARE else self._fork_servers.get(attempt)
        await until(lambda: self._enclosure.kill(attempt, _living_pid(fork_server)), _END_S)
        if fork_server is not None:
            fork_server.kill()
        ended = fork_server is None or await until(lambda: fork_server.poll() is not None, _END_S)
        await until(lambda: self._enclosure.kill_strays(self._living()), _END_S)
        return ended

    def _living(self) -> list[int]:
        found = [*self._fork_servers.values(), *filter(None, [self._spare])]
        return [fork_server.pid for fork_server in found if fork_server.returncode is None]

    async def _start(self, wanted: BeginForkServer) -> None:
        attempt, python, identity = wanted.attempt, wanted.python, wanted.identity
        if attempt in self._fork_servers:
            if self._fork_servers[attempt].poll() is None:
                return
            await self._end(attempt)  # what the last one left
        mark = Mark.of(self._layout.home, attempt, self._node, self._name)
        given = {**wanted.environment, MARK: str(mark)}
        spare = self._spare if born_alike(wanted.environment, python) else None
        usable = not wanted.cold and not wanted.environment.get("ELASTANE_PRELOAD")
        if usable and spare is not None and spare.poll() is None:
            assert spare.stdin is not None
            self._spare = None
            self._enclosure.take_in(attempt, spare.pid)
            spare.stdin.write(wire.encode_message(Become(given, wanted.log, identity)))
            spare.stdin.close()
            self._fork_servers[attempt] = spare
            asyncio.get_running_loop().call_later(1.0, self._keep_one_warm)
        else:
            log, cold = Path(wanted.log), wanted.cold
            self._fork_servers[attempt] = self._spawn(
                attempt, given, log, cold=cold, identity=identity, python=python
            )

    def _keep_one_warm(self) -> None:
        if self._spare is None and not self._over.is_set():
            mark = Mark.of(self._layout.home, SPARE, self._node, self._name)
            log = self._layout.node(self._node) / "nursery.log"
            self._spare = self._spawn(SPARE, {MARK: str(mark), **_THREADS}, log, cold=False)

    def _spawn(
        self,
        attempt: str,
        environment: Mapping[str, str],
        log: Path,
        *,
        cold: bool,
        identity: Identity | None = None,
        python: str = "",
    ) -> subprocess.Popen[bytes]:
        waiting = attempt == SPARE
        leash = {LEASHED: str(os.getpid()), **({WAITING: "1"} if waiting else {})}
        own = identity.environment() if identity is not None else {}
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603
                fork_server_command(cold=cold, python=python),
                env={**around(python), **own, **environment, **leash},
                preexec_fn=self._entering(attempt, identity),
                stdin=subprocess.PIPE if waiting else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _entering(self, attempt: str, identity: Identity | None) -> Callable[[], None]:
        """What a fork server does between its birth and its program: nothing of a job's runs before it is done."""
        enter = self._enclosure.entrance(attempt)

        def entering() -> None:
            enter()
            os.nice(JOBS_YIELD)
            if identity is not None:
                identity.become()
            set_death_signal()  # last: whoever becomes another user loses it

        return entering

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(_REAP_S)
            for attempt, fork_server in self._fork_servers.items():
                if fork_server.poll() is not None and attempt not in self._clearing:
                    self._clearing[attempt] = asyncio.create_task(self._clear(attempt, fork_server))
            if self._spare is not None and self._spare.poll() is not None:
                self._spare = None  # not warmed again by itself: it would fail again
            with self._trouble.logged():
                self._enclosure.note(self._living())

    async def _clear(self, attempt: str, fork_server: subprocess.Popen[bytes]) -> None:
        """End what a fork server that has ended left, unless another was begun in its place meanwhile."""
        try:
            async with self._lock(attempt):
                if self._fork_servers.get(attempt) is fork_server:
                    with self._trouble.logged():
                        self._strangers.ended(attempt, fork_server.returncode)
                        await self._end(attempt)
                        del self._fork_servers[attempt]
                        kill_marked(self._layout.home, lambda m: (m.node, m.attempt) == (self._node, attempt))
        finally:
            del self._clearing[attempt]


def _living_pid(fork_server: subprocess.Popen[bytes] | None) -> int | None:
    return fork_server.pid if fork_server is not None and fork_server.poll() is None else None


async def _main(home: str, node: str) -> None:
    layout = Layout(Path(home))
    layout.node(node).mkdir(parents=True, exist_ok=True)
    lock = Lock(layout.agent_lock(node))
    if not lock.take():
        return  # another one is here already
    agent = Agent(layout, node, alone=True)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, agent.stop)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    await agent.run()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2]))
