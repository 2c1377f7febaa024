"""A ``Lane`` is a thread that does one thing after the other, so that a blocking collective can be waited for later."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from elastane.train.errors import MembershipChanged

T = TypeVar("T")


class Errand(Generic[T]):
    """Something to be done, and what came of it."""

    def __init__(self, body: Callable[[], T]) -> None:
        self._body: Callable[[], T] | None = body
        self._done = threading.Event()
        self._result: list[T] = []
        self._broken = ""
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do it, in whatever thread."""
        assert self._body is not None
        try:
            self._result.append(self._body())
        except MembershipChanged as error:
            self._broken = str(error) or "broken"  # its traceback would keep the group alive
        except BaseException as error:
            self._error = error
        self._body = None
        self._done.set()

    def result(self) -> T:
        """Wait for it; raises what it raised."""
        self._done.wait()
        if self._broken:
            raise MembershipChanged(self._broken)
        if self._error is not None:
            raise self._error
        return self._result[0]


class Lane:
    """Errands in the order in which they were given."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Errand[object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def send(self, body: Callable[[], T]) -> Errand[T]:
        """Have it done after what was sent before."""
        errand = Errand(body)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(errand)  # type: ignore[arg-type]
        return errand

    def close(self) -> None:
        """No more errands come."""
        self._queue.put(None)

    def _run(self) -> None:
        while (errand := self._queue.get()) is not None:
            errand.run()
            del errand
