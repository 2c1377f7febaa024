"""Whether a control plane that was just started works: it does once a round was made, and not if none can be made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from elastane.errors import ElastaneError

ATTEMPTS = 5
"""Rounds that may fail, one after the other and with a rest between them, before a start is given up."""


class FirstRound:
    """Told by the loop how its rounds went, until one was made; asked by whoever says that we are up."""

    def __init__(self) -> None:
        self._decided = asyncio.Event()
        self._failures = 0
        self._problem = ""

    def made(self) -> None:
        """A round was made, whatever came before it."""
        self._problem = ""
        self._decided.set()

    def failed(self, problem: str) -> None:
        """A round could not be made; another is tried.  Of no account once one was made or the start given up."""
        self._failures += 1
        if self._failures >= ATTEMPTS and not self._decided.is_set():
            self._problem = problem
            self._decided.set()

    async def wait(self, loop: Iterable[asyncio.Task[None]]) -> None:
        """Returns when a round was made; raises, in one sentence, if none can be made or the loop has ended."""
        tasks = set(loop)
        deciding = asyncio.ensure_future(self._decided.wait())
        await asyncio.wait({deciding, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        deciding.cancel()
        if self._decided.is_set() and not self._problem:
            return
        raise ElastaneError(f"Elastane did not start: {self._problem or _end_of(tasks)}")


def _end_of(tasks: Iterable[asyncio.Task[None]]) -> str:
    """Why the loop is over, in one line."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            return _one_line(error)
    return "its loop ended before the first round"


def _one_line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return words if isinstance(error, ElastaneError) else f"{type(error).__name__}: {words}".removesuffix(": ")
