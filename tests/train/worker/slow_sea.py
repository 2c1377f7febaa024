"""A store as bad as they come: lists are old, writers take turns in any order, and crash between any two writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence


class Crash(BaseException):
    """This process is gone: it does nothing any more, not even clean up."""


class Sea:
    """What lies in the store now, and lay there before."""

    def __init__(self) -> None:
        self.now: dict[str, bytes] = {}
        self.before: list[Mapping[str, int]] = [{}]

    def changed(self) -> None:
        """Remember how it looks from now on."""
        self.before.append({name: len(data) for name, data in self.now.items()})

    def list(self, lag: int) -> dict[str, int]:
        """As it looked so many changes ago."""
        return dict(self.before[max(0, len(self.before) - 1 - lag)])


class Turns:
    """Lets one of several threads make its next request, as a list of choices says; then always the first."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices = list(choices)
        self._news = threading.Condition()
        self._waiting: set[str] = set()
        self._alive: set[str] = set()
        self._chosen = ""

    def wait(self, name: str) -> None:
        with self._news:
            self._waiting.add(name)
            self._news.notify_all()
            self._news.wait_for(lambda: self._chosen == name)
            self._chosen = ""
            self._waiting.discard(name)

    def run(self, work: Mapping[str, Callable[[], None]]) -> None:
        """Until all have come to their ends."""
        self._alive = set(work)
        threads = [threading.Thread(target=self._life, args=each, daemon=True) for each in work.items()]
        for thread in threads:
            thread.start()
        with self._news:
            while True:
                self._news.wait_for(lambda: not self._chosen and self._waiting == self._alive)
                if not self._alive:
                    break
                order = sorted(self._waiting)
                self._chosen = order[self._choices.pop(0) % len(order) if self._choices else 0]
                self._news.notify_all()
        for thread in threads:
            thread.join()

    def _life(self, name: str, work: Callable[[], None]) -> None:
        self.wait(name)
        try:
            work()
        except Crash:
            pass
        finally:
            with self._news:
                self._alive.discard(name)
                self._news.notify_all()


class Boat:
    """One process' view of the store (``Objects``)."""

    where = "sea"

    def __init__(
        self,
        sea: Sea,
        turn: Callable[[], None] = lambda: None,
        lags: Sequence[int] = (),
        crash_at: int | None = None,
        *,
        after: bool = False,
    ) -> None:
        self._sea, self._turn, self._lags, self._after = sea, turn, list(lags), after
        self._left = crash_at
        self.slept = 0

    def sleep(self, _s: float) -> None:
        """A minute passes: lists are new."""
        self._lags.clear()
        self.slept += 1
        self._turn()

    def _request(self, effect: Callable[[], None] = lambda: None) -> None:
        self._turn()
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                if self._left == 0 and self._after:
                    effect()
                raise Crash
        effect()

    def _set(self, name: str, data: bytes) -> None:
        self._sea.now[name] = data
        self._sea.changed()

    def sizes(self) -> dict[str, int]:
        self._request()
        return self._sea.list(self._lags.pop(0) if self._lags else 0)

    def put(self, name: str, data: bytes) -> None:
        self._request(lambda: self._set(name, data))

    def put_part(self, name: str, data: bytes) -> None:
        self._request(lambda: self._set(name, data[: len(data) // 2]))
        self._request(lambda: self._set(name, data))

    def get(self, name: str, most: int) -> bytes:
        self._request()
        if name not in self._sea.now:
            raise FileNotFoundError(name)
        data = self._sea.now[name]
        if len(data) > most:
            raise ValueError("too long")
        return data

    def remove(self, name: str) -> None:
        def gone() -> None:
            self._sea.now.pop(name, None)
            self._sea.changed()

        self._request(gone)
