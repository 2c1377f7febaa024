"""``AgentWatch`` sees to it that a node has an agent, and notices when the agent dies or falls silent."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elastane.engines.local.agent_messages import (
    FROM_AGENT,
    AgentStatus,
    ShutDown,
    Watch,
)
from elastane.engines.local.ask_agent import ask as ask
from elastane.engines.local.ask_agent import call_agent, end_attempt
from elastane.engines.local.environment import for_service
from elastane.engines.local.json_files import Lock, read_json
from elastane.engines.local.lock_holders import kill_holders
from elastane.engines.local.paths import Layout
from elastane.engines.local.survive_errors import Trouble
from elastane.train.coordinator import wire
from elastane.train.coordinator.device_locks import NODE_DEVICES, lock_of
from elastane.train.coordinator.leases import LEASE_S, AwakeClock
from elastane.train.coordinator.login import ImpostorError
from elastane.train.coordinator.login_reader import LineReader, log_in

log = logging.getLogger("elastane")

_LOOK_S = 0.05
_RESTART_S = 0.5
_SHUTDOWN_S = 10.0
_BEGIN_S = 10.0
"""How long an agent may take from its lock to the file that says where it listens."""
_SILENCES = 3
"""Leases in a row without a word, after which an agent is killed: nothing else frees its node for another one."""


async def _first_answer(
    lines: LineReader, writer: asyncio.StreamWriter, facts: Mapping[str, Any]
) -> AgentStatus | None:
    """Log in to an agent and begin to watch it; what it says of itself."""
    await log_in(lines, writer, "client", facts["token"])
    writer.write(wire.encode_message(Watch()))
    first = FROM_AGENT.decode(await lines.next())
    return first if isinstance(first, AgentStatus) else None


class AgentWatch:
    """One node: starts its agent when there is none, knows at once when it is gone, and soon when it is silent."""

    def __init__(
        self,
        layout: Layout,
        node: str,
        changed: Callable[[], None],
        devices: Sequence[str] = (),
        wanted: Callable[[str, str], bool] = lambda _node, _attempt: True,
    ) -> None:
        """``wanted`` says whether an attempt (its name) is to have workers on a node."""
        self.node = node
        self.alive = False
        self.pid: int | None = None
        self._layout = layout
        self._changed = changed
        self._devices = devices
        self._facts: dict[str, Any] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = wanted
        self._clock = AwakeClock()
        self._line: asyncio.StreamWriter | None = None
        self._heard_s = 0.0
        self._silences = 0
        self._trouble = Trouble(f"node {node}: its agent cannot be looked after")

    async def run(self) -> None:
        """Look after the node's agent until cancelled."""
        while True:
            with self._trouble.logged():
                await self._look_after()
            await asyncio.sleep(_RESTART_S)

    async def _look_after(self) -> None:
        """Have an agent, and stay with it until it is gone."""
        self._layout.node(self.node).mkdir(parents=True, exist_ok=True)
        self._make_locks()
        if self._silences >= _SILENCES:
            await self._kill()
        if not Lock(self._layout.agent_lock(self.node)).held:
            self._start()
        await self._connect()

    def _start(self) -> None:
        # With the lock in hand: an agent that has begun meanwhile says where it is only once.
        lock = Lock(self._layout.agent_lock(self.node))
        if not lock.take():
            return
        self._layout.agent(self.node).unlink(missing_ok=True)
        lock.release()
        with (self._layout.node(self.node) / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "elastane.engines.local.agent", str(self._layout.home), self.node],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**for_service(os.environ, self._layout.home), **self.environment()},
                start_new_session=True,
            )

    def environment(self) -> dict[str, str]:
        """What workers there have to know of their node."""
        folder = self._layout.devices(self.node)
        names = ",".join(self._devices)
        return {NODE_DEVICES: f"{folder}|{names}"} if names else {}

    def _make_locks(self) -> None:
        """Files that workers lock, whoever they run as: open to all, writable by nobody else."""
        folder = self._layout.devices(self.node)
        for place in (folder.parent, folder) if self._devices else ():
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o711)
        for device in self._devices:
            lock = lock_of(folder, device)
            lock.touch()
            lock.chmod(0o644)

    async def _connect(self) -> None:
        """Stay connected as long as it lives."""
        facts = await self._facts_of_agent()
        if facts is None:
            return
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(LEASE_S):
                lines, writer = await call_agent(facts)
                first = await _first_answer(lines, writer, facts)
            if first is not None and await self._clean(facts, first):
                await self._stay(facts, lines, writer)
        except TimeoutError:
            self._is_silent(f"did not answer within {LEASE_S:g} s")
        except ImpostorError as error:
            self._is_silent(f"cannot be reached: {error}")
        except (OSError, ValueError):
            pass
        finally:
            if writer is not None:
                writer.close()

    async def _facts_of_agent(self) -> dict[str, Any] | None:
        """Where it listens; one that has its lock for long and does not say so counts as silent."""
        deadline = time.monotonic() + _BEGIN_S
        while (facts := read_json(self._layout.agent(self.node))) is None and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_S)
        if facts is None and Lock(self._layout.agent_lock(self.node)).held:
            self._is_silent(f"did not say within {_BEGIN_S:g} s where it listens")
        return facts

    async def _stay(self, facts: dict[str, Any], lines: LineReader, writer: asyncio.StreamWriter) -> None:
        self._silences = 0
        self._facts, self.pid, self.alive = facts, int(facts["pid"]), True
        self._line, self._heard_s = writer, self._clock.now_s()
        self._changed()
        try:
            while await lines.next():
                self._heard_s = self._clock.now_s()
        finally:
            self._line = None
            self.alive = False
            self._changed()

    async def _clean(self, facts: Mapping[str, Any], first: AgentStatus) -> bool:
        """End what an agent that was silent still has of attempts that went on elsewhere; whether that is done."""
        if not self._silences:
            return True  # the first line of this control plane: it has not said yet what it wants
        stale = [attempt for attempt in first.fork_servers if not self._wanted(self.node, attempt)]
        return False not in [await end_attempt(facts, attempt) for attempt in stale]

    def look(self) -> None:
        """To be called twice a second: a line that was silent for a lease is given up, and its node with it."""
        now_s = self._clock.now_s()
        if self._line is not None and now_s - self._heard_s > LEASE_S:
            self._is_silent(f"gave no sign of life for {LEASE_S:g} s")
            self._line.transport.abort()
            self._line = None

    def _is_silent(self, how: str) -> None:
        self._silences += 1
        log.warning("node %s: its agent %s", self.node, how)

    async def _kill(self) -> None:
        """End an agent that does not come back, and with it everything on its node."""
        self._silences = 0
        killed = await asyncio.to_thread(kill_holders, self._layout.agent_lock(self.node))
        if killed:
            log.warning("node %s: its agent did not come back and was killed; a new one is started", self.node)

    async def shut_down(self) -> None:
        """End the agent and everything on its node, also one that was started a moment ago."""
        if self._facts is not None and await ask(self._facts, ShutDown(), FROM_AGENT) is None:
            await self._kill()
        lock = Lock(self._layout.agent_lock(self.node))
        deadline = time.monotonic() + _SHUTDOWN_S
        while self._lives(lock) and time.monotonic() < deadline:
            facts = read_json(self._layout.agent(self.node))
            if facts is not None and facts != self._facts:  # one that came after the one we knew
                self._facts = facts
                await ask(facts, ShutDown(), FROM_AGENT)
            await asyncio.sleep(_LOOK_S)
        if self._lives(lock):
            await self._kill()
            if self._process is not None:
                self._process.kill()

    def _lives(self, lock: Lock) -> bool:
        """An agent there is, or one that has not come to its lock yet."""
        return lock.held or (self._process is not None and self._process.poll() is None)
