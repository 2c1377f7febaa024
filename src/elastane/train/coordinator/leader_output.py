"""Passes on what the script of rank 0 prints, whoever that is at the moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


class LeaderEcho:
    """Follows one worker's log at a time, line by line.

    ``from_start`` says what is told of a worker that takes over: all it ever printed (processes that follow one
    another), or only what is new (replicas, which have printed the same so far).
    """

    def __init__(self, log_of: Callable[[str], Path], echo: Callable[[str], None], *, from_start: bool) -> None:
        self._log_of = log_of
        self._echo = echo
        self._from_start = from_start
        self._leader: str | None = None
        self._position = 0

    def look(self, leader: str | None) -> None:
        """Pass on whole lines that are new."""
        if leader is None or not self._log_of(leader).exists():
            return
        if leader != self._leader:
            self.finish()
            replica = self._leader is not None and not self._from_start
            self._position = self._log_of(leader).stat().st_size if replica else 0
            self._leader = leader
        text = self._unread()
        self._pass_on(text[: text.rfind(b"\n") + 1])

    def finish(self) -> None:
        """Pass on the rest, be its last line complete or not."""
        self._pass_on(self._unread())

    def _unread(self) -> bytes:
        if self._leader is None:
            return b""
        with self._log_of(self._leader).open("rb") as file:
            file.seek(self._position)
            return file.read()

    def _pass_on(self, text: bytes) -> None:
        self._position += len(text)
        for line in text.decode(errors="replace").removesuffix("\n").split("\n") if text else ():
            self._echo(line)
