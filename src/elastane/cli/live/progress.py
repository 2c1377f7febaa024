"""A bar for what takes a while, on a terminal; nothing where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_WORTH_BYTES = 8 << 20
"""What is smaller is over before a bar could be read."""


@contextmanager
def transfer() -> Iterator[Callable[[str, int, int], None]]:
    """Gives a function that shows how far something is: what is done, bytes so far, bytes in all."""
    if not sys.stderr.isatty():
        yield lambda _doing, _done, _whole: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        known: dict[str, TaskID] = {}

        def show(doing: str, done: int, whole: int) -> None:
            if whole < _WORTH_BYTES:
                return
            if doing not in known:
                known[doing] = bars.add_task(doing, total=whole)
            bars.update(known[doing], completed=done)

        yield show
