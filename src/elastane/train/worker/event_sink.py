"""The event sink takes a worker's events to the coordinator, or, alone, to a file and one line on the terminal."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console

from elastane.train.exit_cause import Outcome
from elastane.train.reports.event_file import FILE_NAME, Journal
from elastane.train.reports.events import Ended, Event, Warned
from elastane.train.reports.progress import ProgressDisplay
from elastane.train.worker.membership import Membership


class Outlet:
    """One worker's way out; opens files only when there is something to say."""

    def __init__(self, membership: Membership, run: Path) -> None:
        self._membership = membership
        self._run = run
        self._journal: Journal | None = None
        self._display: ProgressDisplay | None = None
        self._began_s = time.time()
        self._ended = False

    def emit(self, event: Event) -> None:
        """Pass an event on."""
        if self._membership.elastic:
            self._membership.report(event.to_json())
        elif self._membership.rank == 0:
            self._local(event)

    def _local(self, event: Event) -> None:
        if self._journal is None:
            self._journal = Journal(self._run / FILE_NAME)
            self._display = ProgressDisplay(Console(stderr=True), time.monotonic)
        self._journal.write(event)
        if self._display is not None:
            self._display.show(event)

    def warn(self, text: str) -> None:
        """Something the owner should know."""
        self.emit(Warned(time.time(), text))
        print(f"elastane: {text}", file=sys.stderr)  # noqa: T201

    def print(self, text: str) -> None:
        """The script's own words, without breaking the progress line."""
        if self._display is not None:
            self._display.print(f"{text}\n")
        else:
            print(text)  # noqa: T201

    def end(self, outcome: Outcome, cause: str, step: int) -> None:
        """The run is over (alone; under Elastane the coordinator says so)."""
        if self._membership.elastic or self._membership.rank != 0 or self._ended:
            return
        self._ended = True
        now = time.time()
        self.emit(Ended(now, outcome, cause, step, now - self._began_s))
        if self._display is not None:
            self._display.close()
            self._display = None
