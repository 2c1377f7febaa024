"""Shows what happens in a demo while it runs, and its tables afterwards; both demos of the live system use it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import queue, terminal, times
from elastane.cli.live.eta import eta_words

if TYPE_CHECKING:
    from elastane.demo.play import Play
    from elastane.service.messages import JobSummary

_LINES = 10
"""Lines of the story that are shown under the live table."""

_COLUMNS = (
    terminal.Column("job"),
    terminal.Column("kind", 3),
    terminal.Column("state"),
    terminal.Column("slots"),
    terminal.Column("nodes", 4),
    terminal.Column("batch", 5, right=True),
    terminal.Column("goodput", 2, right=True),
    terminal.Column("progress", 1),
    terminal.Column("ends"),
)


def show_plain(play: Play, *, err: bool) -> None:
    """Prints a line for everything that happens, and one for every job whose state or size has changed."""
    shown: dict[str, object] = {}
    for scene in play.scenes():
        for line in scene.lines:
            typer.echo(terminal.clean(f"{line.at_s - play.began_s:6.1f} s  {line.text}"), err=err)
        for job in scene.jobs:
            seen = (job.state, job.workers, job.batch)
            if shown.get(job.id) != seen:
                shown[job.id] = seen
                typer.echo(
                    terminal.clean(f"{scene.at_s - play.began_s:6.1f} s    {_plain(job, scene.at_s)}"), err=err
                )


def _plain(job: JobSummary, now_s: float) -> str:
    parts = [
        f"{job.name} ({job.kind}) {job.state}",
        times.counted(job.workers, "slot") + (f" ({queue.nodes_words(job)})" if job.nodes else ""),
        f"batch {job.batch:,}" if job.batch else "",
        f"goodput {times.amount(job.goodput)}" if job.goodput else "",
        f"{times.percent(job.progress)} done" if job.progress else "",
        f"ends {words}" if (words := eta_words(job.eta, now_s)) != "–" else "",
    ]
    return ", ".join(part for part in parts if part)


def show_live(play: Play) -> None:
    """Shows a table that stays in place, with the latest lines of the story under it."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        for scene in play.scenes():
            rows = [_row(job, scene.at_s) for job in scene.jobs]
            table = terminal.styled(terminal.table(_COLUMNS, rows, terminal.terminal_width()))
            story = [f"{line.at_s - play.began_s:6.1f} s  {terminal.clean(line.text)}" for line in play.lines]
            live.update(Group(table, Text(), Text("\n".join(story[-_LINES:]), "dim")), refresh=True)


def _row(job: JobSummary, now_s: float) -> Sequence[object]:
    return (
        job.name,
        job.kind,
        job.state,
        queue.workers_words(job),
        queue.nodes_words(job),
        "–" if not job.batch else f"{job.batch:,}",
        times.amount(job.goodput),
        times.bar(job.progress),
        eta_words(job.eta, now_s),
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table of texts, all but the first column to the right."""
    columns = [terminal.Column(headings[0]), *(terminal.Column(name, right=True) for name in headings[1:])]
    typer.echo("")
    terminal.print_table(columns, rows)


def print_facts(facts: Mapping[str, str]) -> None:
    """Prints names and values."""
    typer.echo("")
    for name, value in facts.items():
        typer.echo(terminal.clean(f"{name}: {value}"))


@contextmanager
def interrupted_by_any_signal() -> Iterator[None]:
    """Turns SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt, so that the demo cleans up before it ends."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
