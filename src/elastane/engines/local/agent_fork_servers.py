"""``AgentForkServers`` has the agents of nodes start the fork servers of one attempt, and ends them with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Mapping
from pathlib import Path
from typing import Any

from elastane.engines.local.agent_messages import (
    FROM_AGENT,
    AskHope,
    BeginForkServer,
    FlushLogs,
    FromAgent,
    Hopeless,
    Limit,
)
from elastane.engines.local.ask_agent import ask, end_attempt, end_fork_servers
from elastane.engines.local.json_files import Lock, read_json
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.obligations import is_joined
from elastane.engines.nodes.places import address_of_head
from elastane.train.coordinator.forkserver import HOST
from elastane.train.coordinator.job_user import Identity
from elastane.train.coordinator.spawners import Parentage

_AGAIN_S = 1.0
_HOPE_S, _HOPES = 0.5, 40
_LOG_S = 0.5
"""How long the log of a worker on another machine is waited for once it has ended."""


class AgentForkServers:
    """Fork servers of one attempt, started by its nodes' agents; on ``adopted`` nodes there may be some already."""

    def __init__(
        self,
        layout: Layout,
        attempt: str,
        log: Path,
        adopted: Iterable[str] = (),
        identity: Identity | None = None,
    ) -> None:
        """``identity`` is the user who shall run them, if not our own."""
        self._identity = identity
        self._layout = layout
        self._attempt = attempt
        self._log = log
        self._asked_s: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._nodes: set[str] = set(adopted)
        self._watched: set[str] = set()
        self._problem = ""
        self._limits: dict[str, tuple[object, int]] = {}
        self._silent: set[str] = set()

    def ask(self, node: str, parentage: Parentage) -> None:
        """At most once a second; the agent does not mind being asked twice."""
        if time.monotonic() - self._asked_s.get(node, -_AGAIN_S) < _AGAIN_S:
            return
        self._asked_s[node] = time.monotonic()
        self._nodes.add(node)
        task = asyncio.create_task(self._ask(node, parentage))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, node: str, parentage: Parentage) -> None:
        facts = read_json(self._layout.agent(node))
        if facts is not None and await self._ended_silent(node, facts):
            message = BeginForkServer(
                attempt=self._attempt,
                environment={**parentage.environment(node), **self._way(node)},
                log=str(self._log),
                cold=parentage.cold,
                python=parentage.python,
                identity=self._identity,
            )
            self._hear(await ask(facts, message, FROM_AGENT))
            if parentage.python and node not in self._watched:
                self._watched.add(node)
                await self._watch(facts)

    def _way(self, node: str) -> dict[str, str]:
        """Where nodes on other machines reach one of ours; theirs say it themselves."""
        address = "" if is_joined(self._layout, node) else address_of_head(self._layout)
        return {HOST: address} if address else {}

    async def _watch(self, facts: Mapping[str, Any]) -> None:
        """Ask its agent for a while: an interpreter that cannot import us cannot tell us so itself."""
        for _ in range(_HOPES):
            await asyncio.sleep(_HOPE_S)
            self._hear(await ask(facts, AskHope(self._attempt), FROM_AGENT))
            if self._problem:
                return

    def _hear(self, answer: FromAgent | None) -> None:
        if isinstance(answer, Hopeless):
            self._problem = answer.problem

    def lost(self, node: str) -> None:
        """The agent ends it when the next one is asked for; if it is silent itself, once it answers again."""
        self._silent.add(node)

    async def _ended_silent(self, node: str, facts: Mapping[str, Any]) -> bool:
        if node in self._silent and await end_attempt(facts, self._attempt):
            self._silent.discard(node)
        return node not in self._silent

    def cut_off(self, node: str) -> bool:
        """Whether a node on another machine cannot be heard because the hub, not the node, is gone."""
        return is_joined(self._layout, node) and not Lock(self._layout.hub_lock).held

    def log_comes(self, node: str) -> Awaitable[object] | None:
        """That a node on another machine has sent all that workers printed; waited for only half a second."""
        facts = read_json(self._layout.agent(node)) if is_joined(self._layout, node) else None
        return ask(facts, FlushLogs(self._attempt), FROM_AGENT, _LOG_S) if facts is not None else None

    def problem(self) -> str:
        """What an agent said; agents that are gone come back, so there is hope."""
        return self._problem

    async def limit(self, memory: int, workers: Mapping[str, int]) -> None:
        """So many bytes for each worker on each node, where the system can see to it; told once to every agent."""
        for node, count in workers.items():
            facts = read_json(self._layout.agent(node))
            if facts is not None and self._limits.get(node) != (facts.get("name"), count):
                answer = await ask(facts, Limit(self._attempt, memory, count), FROM_AGENT)
                if answer is not None:  # else it is told again
                    self._limits[node] = (facts.get("name"), count)

    async def end(self) -> None:
        """Fork servers have been told to stop; whoever did not is ended by its agent."""
        for task in self._tasks:
            task.cancel()
        await end_fork_servers(self._layout, self._attempt, self._nodes)
