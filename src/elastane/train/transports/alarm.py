"""An ``Alarm`` calls back when something takes too long; one thread serves all deadlines, one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Alarm:
    """One deadline at a time, and one thread for all of them."""

    def __init__(self, rings: Callable[[], None]) -> None:
        self._rings = rings
        self._changed = threading.Condition()
        self._due_s: float | None = None
        self._sleeps_until_s: float | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """It rings if the body has not ended by then."""
        self._set(time.monotonic() + seconds)
        try:
            yield
        finally:
            with self._changed:
                self._due_s = None

    def close(self) -> None:
        """It will not ring again."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _set(self, due_s: float) -> None:
        with self._changed:
            self._due_s = due_s
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="alarm", daemon=True)
                self._thread.start()
            elif self._sleeps_until_s is None or self._sleeps_until_s > due_s:
                self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                due_s = self._due_s
                if due_s is not None and time.monotonic() >= due_s:
                    self._due_s = None
                    self._rings()
                    continue
                self._sleeps_until_s = due_s
                self._changed.wait(None if due_s is None else max(0.0, due_s - time.monotonic()))
