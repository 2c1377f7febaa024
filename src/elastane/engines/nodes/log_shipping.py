"""Sends the logs of all attempts of a node over a line that may break: after a break nothing is sent until the head
has said how far it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from elastane.engines.nodes.log_parts import LogOffsets, LogPart, job_of
from elastane.engines.nodes.log_tail import LogTail

log = logging.getLogger("elastane")

LOOK_S = 0.2
"""Pause between two looks: what a worker prints is on the head within half a second."""
Send = Callable[[LogPart], Awaitable[None]]
"""Hands a part to the line, and waits while that is full; an ``OSError`` says that it is broken."""


@dataclass(slots=True)
class _Followed:
    tail: LogTail
    sending: bool = True
    over: bool = False
    """Nobody writes any more: the end is sent as soon as it can be."""


class LogShipper:
    """The logs of a node's attempts; ``memory`` is a folder of ours, with a file for each job whose logs were cut."""

    def __init__(
        self,
        send: Send,
        memory: Path | None = None,
        make: Callable[[str, Path, Path | None], LogTail] = LogTail,
    ) -> None:
        self._send, self._memory, self._make = send, memory, make
        self._followed: dict[str, _Followed] = {}
        self._lock = asyncio.Lock()
        """Held by whoever looks into files: a tail is for one at a time."""

    def begin(self, attempt: str, run: Path) -> None:
        """Follow the logs below ``run`` for a new attempt; harmless to repeat."""
        if attempt not in self._followed:
            # By job: logs of an attempt before this one lie in the same folder.
            memory = self._memory / f"{job_of(attempt)}.json" if self._memory is not None else None
            self._followed[attempt] = _Followed(self._make(attempt, run, memory))
        self._followed[attempt].over = False

    def follows(self, attempt: str) -> bool:
        """Whether the logs of an attempt are being sent, so that it need not be said how far the head is."""
        followed = self._followed.get(attempt)
        return followed is not None and followed.sending

    @property
    def attempts(self) -> list[str]:
        """Those whose logs are not sent to their end: the head is asked how far it is for each."""
        return list(self._followed)

    def line_broke(self) -> None:
        """Send nothing more: what was sent last may never have come."""
        for followed in self._followed.values():
            followed.sending = False

    async def resume(self, known: LogOffsets) -> None:
        """Go on with an attempt where the head is."""
        followed = self._followed.get(known.attempt)
        if followed is not None:
            async with self._lock:
                await asyncio.to_thread(followed.tail.resume, known.offsets)
            followed.sending = True
            await self._finish(known.attempt, followed)

    async def end(self, attempt: str) -> None:
        """Send the end of an attempt's logs, once none of its processes is left, and forget it.

        On a broken line that is done when the head has said how far it is.
        """
        followed = self._followed.get(attempt)
        if followed is not None:
            followed.over = True
            await self._finish(attempt, followed)

    async def _finish(self, attempt: str, followed: _Followed) -> None:
        if not (followed.over and followed.sending):
            return
        async with self._lock:
            parts = await asyncio.to_thread(followed.tail.rest)
            await self._pass_on(followed, parts)
        if followed.sending:
            self._followed.pop(attempt, None)

    async def run(self, look_s: float = LOOK_S) -> None:
        """Look and send until cancelled."""
        while True:
            await self.once()
            await asyncio.sleep(look_s)

    async def once(self) -> None:
        """Look at all logs once, and send what is new."""
        for attempt in [name for name, followed in self._followed.items() if not followed.over]:
            await self.flush(attempt)

    async def flush(self, attempt: str) -> None:
        """Look at the logs of one attempt now; what is new has been given to the line when this returns."""
        async with self._lock:
            followed = self._followed.get(attempt)
            if followed is None or followed.over:
                return
            try:
                parts = await asyncio.to_thread(followed.tail.look, sending=followed.sending)
            except OSError as error:  # a disk with errors, say: the others' logs go on
                log.warning("logs of attempt %s cannot be read: %s", attempt, error)
                return
            await self._pass_on(followed, parts)

    async def _pass_on(self, followed: _Followed, parts: list[LogPart]) -> None:
        for part in parts:
            if not followed.sending:  # the line broke while we waited or looked: there may be another one
                return
            try:
                await self._send(part)
            except OSError:
                self.line_broke()
