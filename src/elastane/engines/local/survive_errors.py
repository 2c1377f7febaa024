"""Lets work that is done again and again survive an error that nobody expected: it is logged, and the work goes on."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

log = logging.getLogger("elastane")


class Trouble:
    """The errors of one kind of work; the same one many times in a row is logged once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._last = ""

    @contextlib.contextmanager
    def logged(self) -> Iterator[None]:
        """One turn of the work."""
        try:
            yield
        except Exception as error:
            if repr(error) != self._last:
                self._last = repr(error)
                log.exception("%s (%r); it is tried again", self._what, error)
        else:
            self._last = ""
