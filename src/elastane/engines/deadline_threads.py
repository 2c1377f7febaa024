"""Runs work that may hang in threads of its own, with a deadline: the event loop goes on whatever becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from elastane.errors import ElastaneError

T = TypeVar("T")
PATIENCE_S = 10.0
_AT_ONCE = 4
_HANGING_PER_USER = 4


def start_aside(work: Callable[[], T], name: str) -> tuple[asyncio.Future[T], threading.Thread]:
    """The answer to come, and the thread that works on it: a daemon, which keeps no process from ending."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    thread = threading.Thread(target=_work, args=(work, answer), name=name, daemon=True)
    thread.start()
    return answer, thread


def _work(work: Callable[[], T], answer: asyncio.Future[T]) -> None:
    tell: Callable[[], None]
    try:
        tell = partial(answer.set_result, work())
    except BaseException as error:
        tell = partial(answer.set_exception, _plain(error))

    def deliver() -> None:
        if not answer.done():
            tell()

    with contextlib.suppress(RuntimeError):  # nobody is there any more
        answer.get_loop().call_soon_threadsafe(deliver)


def _plain(error: BaseException) -> Exception:
    """An exception that means nothing special to whoever waits for the answer."""
    if isinstance(error, Exception) and not isinstance(error, TimeoutError | StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__} {error}".strip())


class Aside:
    """Looks at what users name, a few at a time; one that hangs counts against its user alone."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._hanging: list[tuple[str, threading.Thread]] = []

    async def look(self, user: str, work: Callable[[], T]) -> T:
        """The result of ``work``; ``ElastaneError`` where it takes too long or more memory than there is."""
        async with self._turn:
            self._check(user)
            answer, thread = start_aside(work, "look")
            try:
                return await asyncio.wait_for(answer, self._patience_s)
            except TimeoutError:
                within = f"within {self._patience_s:g} s"
                raise ElastaneError(
                    f"command: its files could not be read {within}; put them elsewhere"
                ) from None
            except (OSError, ValueError, MemoryError, RecursionError) as error:
                words = " ".join(str(error).split()) or type(error).__name__
                raise ElastaneError(f"command: it could not be looked at: {words[:200]}") from None
            finally:
                if answer.cancelled():  # too late, or whoever asked has hung up
                    self._hanging.append((user, thread))

    def _check(self, user: str) -> None:
        self._hanging = [(who, thread) for who, thread in self._hanging if thread.is_alive()]
        if sum(who == user for who, _ in self._hanging) >= _HANGING_PER_USER:
            raise ElastaneError("command: earlier looks at files of yours have not come back; try again later")
