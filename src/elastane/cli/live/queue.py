"""``elastane queue``: the jobs that run or wait, in the order of the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import connection, options, terminal, times
from elastane.cli.live.eta import eta_words
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.service.messages import JobSummary

HELP = "Show jobs that run or wait: workers, batch, goodput, progress, when they end, why they wait."

COLUMNS = (
    terminal.Column("id"),
    terminal.Column("name"),
    terminal.Column("owner", 4),
    terminal.Column("state"),
    terminal.Column("workers"),
    terminal.Column("nodes", 6),
    terminal.Column("batch", 7, right=True),
    terminal.Column("goodput", 5, right=True),
    terminal.Column("progress", 2),
    terminal.Column("ends", 1),
    terminal.Column("why"),
)
_EVERY_S = 1.0


def command(
    everything: bool = typer.Option(False, "--all", help="Also jobs that have ended."),
    mine: bool = typer.Option(False, "--mine", help="Only my own jobs."),
    tenant: str = typer.Option(None, help="Only jobs of this tenant."),
    watch: bool = typer.Option(
        False, "--watch", help="Keep showing; without a terminal until nothing is active."
    ),
    as_json: bool = options.AS_JSON,
) -> None:
    """Prints the queue, once or until nothing is active."""
    if watch and as_json:
        raise ElastaneError("--watch is for people; programs follow 'elastane events -f --json', or ask again")
    client = connection.connect()
    owner = client.whoami().name if mine else None

    def ask() -> list[JobSummary]:
        return client.jobs("all" if everything else "active", owner=owner, tenant=tenant)

    if as_json:
        typer.echo(terminal.document(ask()))
    elif watch:
        _watch(ask)
    else:
        _print(ask())


def row(job: JobSummary, now_s: float) -> Sequence[object]:
    """A job as a line of the table."""
    return (
        job.id,
        job.name,
        job.owner,
        f"{job.state} (held)" if job.held else job.state,
        workers_words(job),
        nodes_words(job),
        "–" if job.batch is None else f"{job.batch:,}",
        times.amount(job.goodput),
        times.bar(job.progress),
        eta_words(job.eta, now_s),
        job.reason,
    )


def workers_words(job: JobSummary) -> str:
    """Workers now, and the range they may be in: ``4 (1–8)``."""
    if job.max_workers == job.min_workers:
        limits = f"{job.min_workers}"
    else:
        limits = f"{job.min_workers}–{job.max_workers}" if job.max_workers else f"{job.min_workers}+"
    return f"{job.workers} ({limits})" + ("" if job.pinned is None else f" pinned to {job.pinned}")


def nodes_words(job: JobSummary) -> str:
    """Nodes with how many workers each: ``n0:2 n1:2``."""
    return " ".join(f"{node}:{count}" for node, count in sorted(job.nodes.items())) or "–"


def _print(jobs: Sequence[JobSummary]) -> None:
    if not jobs:
        terminal.say("no jobs; submit one with: elastane submit -- python train.py")
        return
    now_s = times.now_s()
    terminal.print_table(COLUMNS, [row(job, now_s) for job in jobs])


def _watch(ask: Callable[[], list[JobSummary]]) -> None:
    if terminal.is_terminal():
        _live(ask)
    shown = None
    while True:
        jobs = ask()
        state = [(job.id, job.state, job.workers) for job in jobs]
        if state != shown:
            shown = state
            _print(jobs)
        if all(job.ended_s is not None for job in jobs):
            return
        times.pause(_EVERY_S)


def _live(ask: Callable[[], list[JobSummary]]) -> None:
    """A table that stays in place, until interrupted."""
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        while True:
            now_s = times.now_s()
            rows = [row(job, now_s) for job in ask()]
            lines = terminal.table(COLUMNS, rows, terminal.terminal_width())
            live.update(terminal.styled(lines), refresh=True)
            times.pause(_EVERY_S)
