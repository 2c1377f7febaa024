"""The hub's side of workers' logs: parts that nodes send are written by one thread, never by the loop.

Each node has a short queue of its own; while it is full nothing more is read from that node, so it has to wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from elastane.engines.local.paths import Layout
from elastane.engines.local.survive_errors import Trouble
from elastane.engines.nodes.log_append import LogAppender, RefusedPartError
from elastane.engines.nodes.log_parts import LogOffsets, LogPart

log = logging.getLogger("elastane")
_WAITING = 32
"""Parts of one node that may wait for the disk."""
_SETTLED_S = 5.0
"""How long a disk may take before nobody waits for a log any more."""
_MOST_NAMED = 1000
_Found = TypeVar("_Found")


class HubLogs:
    """The logs of all jobs, on disk."""

    def __init__(self, layout: Layout) -> None:
        self._appender = LogAppender(layout)
        self._turn = asyncio.Lock()
        """Held by whoever uses the appender, which is for one thread at a time; nodes take turns."""
        self._refused: set[tuple[str, str]] = set()
        self._trouble = Trouble("logs of workers on other machines are not written")

    async def append(self, node: str, parts: list[LogPart]) -> None:
        """Write parts; what cannot be written is missing in the log, and said there once it can be."""
        await self._do(lambda: self._append(node, parts))

    async def offsets(self, attempt: str) -> LogOffsets:
        """How far the logs of an attempt's job are."""
        return LogOffsets(attempt, await self._do(lambda: self._appender.offsets(attempt)))

    async def forget(self, attempt: str) -> None:
        """Free what is remembered of an attempt that has ended."""
        await self._do(lambda: self._appender.forget(attempt))

    async def _do(self, work: Callable[[], _Found]) -> _Found:
        async with self._turn:
            return await asyncio.to_thread(work)

    def _append(self, node: str, parts: list[LogPart]) -> None:
        for part in parts:
            with self._trouble.logged():
                try:
                    self._appender.append(part)
                except RefusedPartError as error:
                    self._name(node, part, error)

    def _name(self, node: str, part: LogPart, error: RefusedPartError) -> None:
        """Say once what is refused."""
        key = (part.attempt, part.worker)
        if key not in self._refused and len(self._refused) < _MOST_NAMED:
            self._refused.add(key)
            log.warning("node %s: a part of a log was passed over: %s", node, error)


class LogInlet:
    """What one node sends, on its way to the disk."""

    def __init__(self, node: str, logs: HubLogs) -> None:
        self._node, self._logs = node, logs
        self._queue: asyncio.Queue[LogPart | asyncio.Future[None]] = asyncio.Queue(_WAITING)
        self._task: asyncio.Task[None] | None = None

    async def take(self, part: LogPart) -> None:
        """Have a part written, soon; waits while there are many before it."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        await self._queue.put(part)

    async def settled(self) -> None:
        """Wait until all that was taken before is on disk."""
        if self._task is not None:
            mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            await self._queue.put(mark)
            await asyncio.wait({mark}, timeout=_SETTLED_S)

    def close(self) -> None:
        """Write no more: the node tells again what the head does not have."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        while not self._queue.empty():
            _release(self._queue.get_nowait())

    async def _run(self) -> None:
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                await self._logs.append(self._node, [each for each in batch if isinstance(each, LogPart)])
            finally:
                for each in batch:
                    _release(each)


def _release(waiting: LogPart | asyncio.Future[None]) -> None:
    if not isinstance(waiting, LogPart) and not waiting.done():
        waiting.set_result(None)
