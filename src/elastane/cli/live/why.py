"""``elastane why``: the one reason that binds a job, who is ahead, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import calls, options, screen, times

if TYPE_CHECKING:
    from elastane.service.messages import Ahead, Why

HELP = "Why a job waits, or is not larger: one reason with its numbers, who is ahead, what would help."

_MOST_AHEAD = 3


def command(
    id: str = options.JOB,
    instead: bool = typer.Option(False, "--instead", help="Also what other wishes would bring."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Explain a job."""
    answer = calls.connect().why(id, instead=instead)
    typer.echo(screen.document(answer) if as_json else "\n".join(map(screen.clean, why_lines(answer))))


def why_lines(why: Why) -> Iterator[str]:
    """A few lines, the reason first."""
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {times.amount(value)}" for name, value in why.numbers.items()
    )
    yield f"{why.id} {why.state}: {why.reason}" + (f" ({numbers})" if numbers else "")
    if why.ahead:
        more = len(why.ahead) - _MOST_AHEAD
        named = ", ".join(map(_ahead, why.ahead[:_MOST_AHEAD]))
        yield f"  ahead: {named}" + (f" and {more} more" if more > 0 else "")
    if why.advice:
        yield f"  would help: {'; '.join(why.advice)}"
    for each in why.instead:
        yield f"  instead {each.change}: starts {each.starts}" + ("" if each.helps else " (does not help)")


def _ahead(job: Ahead) -> str:
    return f"{job.id} {job.name} of {job.owner} ({times.counted(job.workers, 'worker')}, {job.state})"
