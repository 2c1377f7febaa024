"""Finds processes by the mark they carry, so that nothing we started is ever left behind.

Every process of an attempt has ``ELASTANE_MARK`` in its environment, and hands it on to whatever it starts.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from elastane.kit.home_names import name_of

MARK = "ELASTANE_MARK"


@dataclass(frozen=True, slots=True)
class Mark:
    """Whose process it is: the name of the home it belongs to, the attempt, the node and that node's agent."""

    home: str
    attempt: str
    node: str
    agent: str

    def __str__(self) -> str:
        return "|".join((self.home, self.attempt, self.node, self.agent))

    @classmethod
    def of(cls, home: Path, attempt: str, node: str, agent: str) -> Mark:
        """The mark of processes of a home, which it names by a digest."""
        return cls(name_of(home), attempt, node, agent)

    @classmethod
    def parse(cls, text: str) -> Mark | None:
        """The inverse of ``str``."""
        parts = text.split("|")
        return cls(*parts) if len(parts) == 4 else None


def marked(home: Path) -> Iterator[tuple[int, Mark]]:
    """Every living process of this home that carries a mark."""
    own = name_of(home)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for pair in (entry / "environ").read_bytes().split(b"\0"):
                name, _, value = pair.partition(b"=")
                mark = Mark.parse(value.decode(errors="replace")) if name == MARK.encode() else None
                if mark is not None and mark.home == own:
                    yield int(entry.name), mark


def kill_marked(home: Path, condemned: Callable[[Mark], bool]) -> int:
    """End all whose mark says so; returns how many."""
    count = 0
    for pid, mark in list(marked(home)):
        if pid != os.getpid() and condemned(mark):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                count += 1
    return count
