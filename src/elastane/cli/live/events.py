"""``elastane events``: the event log, as it is or as it grows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import connection, terminal, times

if TYPE_CHECKING:
    from elastane.service.messages import EventRecord

HELP = "Print the event log; -f goes on with what is added."


def command(
    follow: bool = typer.Option(False, "-f", "--follow", help="Go on until interrupted."),
    after: int = typer.Option(0, min=0, help="Only entries after this number."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document (with -f: JSON lines)."),
) -> None:
    """Prints the event log, and follows it where that is asked for."""
    found = connection.connect().events(after, follow=follow)
    if as_json and not follow:
        typer.echo(terminal.document(list(found)))
        return
    for event in found:
        typer.echo(terminal.line(event) if as_json else event_line(event, times.now_s()))


def event_line(event: EventRecord, now_s: float) -> str:
    """An entry on one line."""
    body = "" if not event.body else " " + json.dumps(event.body, ensure_ascii=False)
    job = f" {event.job}" if event.job else ""
    return terminal.clean(f"{event.seq}  {times.ago(event.at_s, now_s)}  {event.kind}{job}{body}")
