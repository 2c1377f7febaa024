"""Prints tables and progress of ``elastane predict`` on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastane.predict.calibration.calibrate import Progress
    from elastane.predict.operators import StepCapture


def show(table: Any, captured: StepCapture | None = None, notes: list[str] | None = None) -> None:
    """Prints a table, then notes on it: those given, or those of the captured step."""
    from rich.console import Console

    console = Console()
    console.print(table)
    for note in notes if notes is not None else (captured.notes if captured else ()):
        console.print(note, style="dim")
    if captured is not None and captured.unknown and notes is None:
        names = ", ".join(name for name, _ in captured.unknown)
        console.print(f"not modelled: {captured.unknown_share:.1%} of bytes ({names})", style="dim")


def check_page(path: Path | None) -> None:
    """Refuses a page that cannot be written before the user has waited for it."""
    from elastane.cli.output import check_targets

    check_targets(None, path)


@contextmanager
def progress(text: str) -> Iterator[Progress]:
    """Shows a progress bar on standard error; nothing where that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    # Without a thread that draws: measurements fork this process.
    console = Console(stderr=True)
    unwatched = not console.is_terminal
    with Progress(*columns, console=console, transient=True, auto_refresh=False, disable=unwatched) as bar:
        task = bar.add_task(text, total=1.0)

        def advance(done: float, what: str) -> None:
            bar.update(task, completed=done, description=what, refresh=True)

        yield advance
