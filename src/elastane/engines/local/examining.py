"""What can be said of a command before it runs.  Sweeps hand the same one in many times: it is looked at once a second.

Only good news is kept: whoever was told that a script is missing may put it there and ask again at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from elastane.engines.contract import Examined
from elastane.engines.local.command import kind_of, missing, runnable

_FRESH_S = 1.0
_MOST = 256
_Asked = tuple[str, tuple[str, ...], str, str | None]


class Examiner:
    """Remembers for a moment what it saw."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[_Asked, tuple[float, Examined]] = {}

    def examine(
        self, kind: str, command: Sequence[str], directory: str, environment: Mapping[str, str]
    ) -> Examined:
        """By its source, if it is a Python script."""
        asked: _Asked = (kind, tuple(command), directory, environment.get("PATH"))
        at_s, found = self._seen.get(asked, (-_FRESH_S, None))
        if found is not None and self._clock() - at_s < _FRESH_S:
            return found
        found = _look(kind, command, Path(directory), environment)
        if not found.missing:
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen[asked] = (self._clock(), found)
        return found


def _look(kind: str, command: Sequence[str], place: Path, environment: Mapping[str, str]) -> Examined:
    what = runnable(command, place, environment)
    lacking = missing(what, place, environment)
    if lacking:
        return Examined(kind, "", lacking)
    choice = kind_of(kind, what, place)
    return Examined(choice.kind.value, choice.reason)
