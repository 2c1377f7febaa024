"""Simulated agents, a line to the hub each: ``python -m benchmarks.cluster.lines HOME COUNT``, until it is killed.

They are whole diallers with beats, and machines that do what they are told at once, since they run nothing.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from elastane.engines.local.agent_messages import (
    AgentStatus,
    AskAgent,
    BeginForkServer,
    EndAttempt,
    FromAgent,
    Ok,
    ToAgent,
)
from elastane.engines.nodes.dialler import Dialler
from elastane.engines.nodes.hub import own_versions
from elastane.engines.nodes.joined_nodes import join_string
from elastane.engines.nodes.joining import Join
from elastane.engines.nodes.log_parts import LogOffsets
from elastane.engines.nodes.messages import PROTOCOL, AttemptTold, NodeHello

_CORES = 4
_APART_S = 0.02


class Machine:
    """What a dialler speaks for: a node with nothing on it."""

    def __init__(self, number: int) -> None:
        name = f"sim{number:03}"
        self._hello = NodeHello(PROTOCOL, name, "first", cores=_CORES, versions=own_versions())
        self._cluster, self._attempts = "", set[str]()

    def hello(self, address: str) -> NodeHello:
        """How it introduces itself."""
        attempts = dict.fromkeys(self._attempts, True)
        return msgspec.structs.replace(
            self._hello, cluster=self._cluster, attempts=attempts, address=address or "127.0.0.1"
        )

    def belongs_to(self, cluster: str) -> None:
        """Remember the cluster."""
        self._cluster = cluster

    async def answer(self, message: ToAgent) -> FromAgent:
        """Do as told."""
        match message:
            case BeginForkServer():
                self._attempts.add(message.attempt)
            case EndAttempt(attempt):
                await self.end(attempt)
            case AskAgent():
                return AgentStatus(dict.fromkeys(sorted(self._attempts), 1))
        return Ok()

    def told(self, about: AttemptTold) -> None:
        """Nothing: there is no package and no log here."""

    async def resume_logs(self, known: LogOffsets) -> None:
        """Nothing, likewise."""

    def line_broke(self) -> None:
        """Nothing, likewise."""

    async def end(self, attempt: str) -> None:
        """End an attempt."""
        self._attempts.discard(attempt)

    async def end_all(self) -> None:
        """End all of them."""
        self._attempts.clear()


async def main() -> None:
    """Dial, one shortly after the other, and stay."""
    join = Join.parse(join_string(Path(sys.argv[1])).strip("'"))
    tasks = list[asyncio.Task[None]]()
    for number in range(int(sys.argv[2])):
        tasks.append(asyncio.create_task(Dialler(join, Machine(number), lambda _: None).run()))
        await asyncio.sleep(_APART_S)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main())
