"""``elastane events``: the event log, as it is or as it grows."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import calls, screen, times

if TYPE_CHECKING:
    from elastane.service.messages import EventRecord

    _Heard = queue.SimpleQueue[EventRecord | Exception | None]

QUIET_S = 2.0
"""The stream of events has no end; what was there before has been sent when it is silent for so long."""

HELP = "Print the event log; -f goes on with what is added."


def command(
    follow: bool = typer.Option(False, "-f", "--follow", help="Go on until interrupted."),
    after: int = typer.Option(0, min=0, help="Only entries after this number."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document (with -f: JSON lines)."),
) -> None:
    """Print events."""
    endless = calls.connect().events(after)
    found = endless if follow else until_quiet(endless)
    if as_json and not follow:
        typer.echo(screen.document(list(found)))
        return
    for event in found:
        typer.echo(screen.line(event) if as_json else event_line(event, times.now_s()))


def event_line(event: EventRecord, now_s: float) -> str:
    """An entry on one line."""
    body = "" if not event.body else " " + json.dumps(event.body, ensure_ascii=False)
    job = f" {event.job}" if event.job else ""
    return screen.clean(f"{event.seq}  {times.ago(event.at_s, now_s)}  {event.kind}{job}{body}")


def until_quiet(events: Iterable[EventRecord]) -> Iterator[EventRecord]:
    """Entries up to this moment, from a stream that would go on for ever."""
    heard: _Heard = queue.SimpleQueue()
    enough = threading.Event()
    threading.Thread(target=_listen, args=(events, heard, enough), daemon=True).start()
    start_s = times.now_s()
    try:
        while (item := heard.get(timeout=QUIET_S)) is not None:
            if isinstance(item, Exception):
                raise item
            if item.at_s > start_s:
                return
            yield item
    except queue.Empty:
        return
    finally:
        enough.set()


def _listen(events: Iterable[EventRecord], heard: _Heard, enough: threading.Event) -> None:
    try:
        for event in events:
            heard.put(event)
            if enough.is_set():
                return
    except Exception as error:  # handed on to whoever listens
        heard.put(error)
    else:
        heard.put(None)
