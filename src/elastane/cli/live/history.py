"""``elastane history``: jobs that have ended, the latest first; and what they teach, as files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from elastane.cli import history_files
from elastane.cli.live import connection, options, terminal, times
from elastane.cli.live.exit_codes import Verb
from elastane.cli.live.groups import ListByDefault, group
from elastane.kit.durations import duration

if TYPE_CHECKING:
    from elastane.service.messages import JobSummary

HELP = "Show jobs that have ended; make and look at files of what past jobs teach (docs/history.md)."

app = group(ListByDefault, HELP)
app.command("build", cls=Verb, help=history_files.BUILD_HELP)(history_files.build)
app.command("export", cls=Verb, help=history_files.EXPORT_HELP)(history_files.export)
app.command("show", cls=Verb, help=history_files.SHOW_HELP)(history_files.show)

_COLUMNS = (
    terminal.Column("id"),
    terminal.Column("name"),
    terminal.Column("owner", 3),
    terminal.Column("state"),
    terminal.Column("attempts", 4, right=True),
    terminal.Column("waited", 2, right=True),
    terminal.Column("ran", 1, right=True),
    terminal.Column("ended"),
    terminal.Column("why"),
)


@app.command("list", cls=Verb, help="Show jobs that have ended, the latest first, and why (the default).")
def command(
    limit: int = typer.Option(20, min=1, max=10_000, help="How many jobs."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Prints the jobs that have ended, the latest first."""
    jobs = connection.connect().jobs("ended", limit=limit)
    if as_json:
        typer.echo(terminal.document(jobs))
    elif not jobs:
        terminal.say("no job has ended yet")
    else:
        now_s = times.now_s()
        terminal.print_table(_COLUMNS, [_row(job, now_s) for job in jobs])


def _row(job: JobSummary, now_s: float) -> Sequence[object]:
    ended_s = now_s if job.ended_s is None else job.ended_s
    started_s = ended_s if job.started_s is None else job.started_s
    return (
        job.id,
        job.name,
        job.owner,
        job.state,
        job.attempt,
        duration(started_s - job.submitted_s),
        "–" if job.started_s is None else duration(ended_s - started_s),
        times.ago(ended_s, now_s),
        job.reason,
    )
