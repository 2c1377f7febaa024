"""Reassembles whole lines from the pieces in which programs write, so that messages never split a line."""

from __future__ import annotations

from collections.abc import Iterator

_SHORT = 1 << 12


class LineKeeper:
    """Holds back the unfinished line of each source.

    A line that was written over with carriage returns, as progress bars do, comes out as it looked last.
    """

    def __init__(self) -> None:
        self._rest: dict[str, str] = {}

    def feed(self, text: str, source: str = "") -> Iterator[str]:
        """Yields the lines that are complete with ``text``, without their ends."""
        *lines, rest = (self._rest.get(source, "") + text).split("\n")
        # A bar that is redrawn for hours must not fill the memory; its end may be the first half of \r\n.
        self._rest[source] = rest if len(rest) < _SHORT else _as_seen(rest) + "\r" * rest.endswith("\r")
        return (_as_seen(line) for line in lines)

    def finish(self) -> Iterator[str]:
        """Yields the unfinished lines of all sources."""
        rests, self._rest = self._rest, {}
        return (_as_seen(rest) for rest in rests.values() if rest)


def _as_seen(line: str) -> str:
    return line.removesuffix("\r").rpartition("\r")[2]
