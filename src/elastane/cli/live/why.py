"""``elastane why``: the one reason that binds a job, who is ahead, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import connection, options, terminal, times
from elastane.cli.live.eta import eta_words

if TYPE_CHECKING:
    from elastane.service.messages import Ahead, Why

HELP = "Why a job waits, or is not larger: one reason, who is ahead, what would help; figures are in --json."

_MOST_AHEAD = 3


def command(
    id: str = options.JOB,
    instead: bool = typer.Option(False, "--instead", help="Also what other wishes would bring."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Prints why a job waits or is not larger."""
    answer = connection.connect().why(id, instead=instead)
    typer.echo(
        terminal.document(answer)
        if as_json
        else "\n".join(map(terminal.clean, why_lines(answer, times.now_s())))
    )


def why_lines(why: Why, now_s: float) -> Iterator[str]:
    """A few lines, the reason first."""
    yield f"{why.id} {why.state}: {why.reason}"
    if why.ahead:
        yield f"  ahead: {ahead_words(why.ahead, now_s)}"
    if why.advice:
        yield f"  would help: {'; '.join(why.advice)}"
    for each in why.instead:
        yield f"  with {each.change}: {each.starts}"


def ahead_words(ahead: Sequence[Ahead], now_s: float) -> str:
    """Names the jobs that hold what a job needs, with their expected ends."""
    more = len(ahead) - _MOST_AHEAD
    named = ", ".join(_ahead(each, now_s) for each in ahead[:_MOST_AHEAD])
    return named + (f" and {more} more" if more > 0 else "")


def _ahead(job: Ahead, now_s: float) -> str:
    ends = eta_words(job.eta, now_s)
    when = "end unknown" if ends == "–" else f"ends {ends}"
    return f"{job.id} {job.name} of {job.owner} ({times.counted(job.workers, 'worker')}, {job.state}, {when})"
