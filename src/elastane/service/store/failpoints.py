"""Places where a test may make the store crash or fail; nothing happens there otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Callback = Callable[[str], None]

_callback: Callback | None = None


def reach(name: str) -> None:
    """Say that this place was reached; a test's callback may raise, or end the process."""
    if _callback is not None:
        _callback(name)


@contextmanager
def watched(callback: Callback) -> Iterator[None]:
    """Have ``callback`` called at every failpoint."""
    global _callback
    before, _callback = _callback, callback
    try:
        yield
    finally:
        _callback = before
