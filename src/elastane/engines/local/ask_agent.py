"""Asks the agent of a node (or a supervisor) one question over a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from elastane.engines.local.agent_messages import FROM_AGENT, EndAttempt, Ok
from elastane.engines.local.json_files import read_json
from elastane.engines.local.paths import Layout
from elastane.engines.local.untrusted_files import UNREADABLE
from elastane.engines.nodes.obligations import is_joined, promise
from elastane.train.coordinator import wire
from elastane.train.coordinator.login_reader import BUFFER_BYTES, LineReader, log_in
from elastane.train.coordinator.wire import Line, Message, Said

_END_S = 20.0
"""How long an agent may take to end an attempt: its answer comes when all is done."""


async def ask(
    facts: Mapping[str, Any], message: Message, answers: Line[Said], timeout_s: float = 5.0
) -> Said | None:
    """One question to an agent or a supervisor; None when it does not answer, or not as one of ``answers``."""
    with contextlib.suppress(OSError, asyncio.TimeoutError, *UNREADABLE):
        async with asyncio.timeout(timeout_s):
            lines, writer = await call_agent(facts)
            try:
                await log_in(lines, writer, "client", facts["token"])
                writer.write(wire.encode_message(message))
                return answers.decode(await lines.next())
            finally:
                writer.close()
    return None


async def call_agent(facts: Mapping[str, Any]) -> tuple[LineReader, asyncio.StreamWriter]:
    """A connection to an agent or a supervisor, as it says itself where it listens; nobody has logged in yet."""
    reader, writer = await asyncio.open_connection(facts["host"], int(facts["port"]), limit=BUFFER_BYTES)
    wire.watch_transport(writer)
    return LineReader(reader), writer


async def end_fork_servers(layout: Layout, attempt: str, nodes: Iterable[str]) -> None:
    """End whoever still works for an attempt there.

    Workers of a fork server that was warmed in advance bear the mark it was born with, so they are not found by it.
    """
    for node in nodes:
        facts = read_json(layout.agent(node))
        if (facts is None or not await end_attempt(facts, attempt)) and is_joined(layout, node):
            promise(layout, node, attempt)  # the hub is away: the next one finds it written


async def end_attempt(facts: Mapping[str, Any], attempt: str) -> bool:
    """Have an agent end all of an attempt; whether it has."""
    return isinstance(await ask(facts, EndAttempt(attempt), FROM_AGENT, _END_S), Ok)
