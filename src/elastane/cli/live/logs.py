"""``elastane logs``: what a job's processes printed."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import connection, options, terminal
from elastane.errors import ElastaneError
from elastane.suggest import did_you_mean

if TYPE_CHECKING:
    from elastane.client.client import Client
    from elastane.service.messages import LogFile

HELP = "Print what a job wrote: its leader in all attempts, one worker, or --all; -f follows until the end."

_STEERING = re.compile(r"\x1b\[[0-9;]*m|[\n\r\t]|[\x00-\x1f\x7f-\x9f]")
"""Colours and line ends, then everything else that steers a terminal."""


def command(
    id: str = options.JOB,
    follow: bool = typer.Option(False, "-f", "--follow", help="Go on until the job ends."),
    attempt: int = typer.Option(None, min=0, help="Only this attempt."),
    worker: str = typer.Option(None, help="This worker instead of the leader."),
    everyone: bool = typer.Option(False, "--all", help="All workers."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document (with -f: JSON lines)."),
) -> None:
    """Prints the logs of a job, or follows one of them."""
    if follow and (attempt is not None or everyone):
        raise ElastaneError("-f follows one worker in its latest attempt; leave out --attempt and --all")
    if worker is not None and everyone:
        raise ElastaneError("--worker and --all contradict each other; keep one of them")
    client = connection.connect()
    if follow:
        for text in client.follow_logs(id, worker):
            _write(terminal.line({"text": text}) + "\n" if as_json else text)
        return
    files = _chosen(client.logs(id), attempt, worker, everyone)
    if as_json:
        entries = [
            {**file.model_dump(mode="json"), "text": "".join(_parts(client, id, file))} for file in files
        ]
        typer.echo(terminal.document({"id": id, "logs": entries}))
        return
    for text in _texts(client, id, files):
        _write(text)


def _chosen(files: Sequence[LogFile], attempt: int | None, worker: str | None, everyone: bool) -> list[LogFile]:
    """The files that were asked for; a wish that matches none is a mistake."""
    attempts, workers = sorted({file.attempt for file in files}), sorted({file.worker for file in files})
    if attempt is not None and attempt not in attempts:
        known = ", ".join(map(str, attempts)) or "none"
        raise ElastaneError(f"--attempt: there is no attempt {attempt}; known are {known}")
    if worker is not None and worker not in workers:
        hint = did_you_mean(worker, workers) or f"; known are {', '.join(workers) or 'none'}"
        raise ElastaneError(f"--worker: there is no worker {worker!r}{hint}")
    return [
        file
        for file in files
        if (attempt is None or file.attempt == attempt)
        and (everyone or (file.worker == worker if worker is not None else file.leader))
    ]


def _texts(client: Client, id: str, files: Sequence[LogFile]) -> Iterator[str]:
    if not files:
        terminal.say(f"{id} has written nothing yet; to see why: elastane why {id}")
    for file in files:
        if len(files) > 1:
            yield f"==> attempt {file.attempt}, worker {terminal.clean(file.worker)} <==\n"
        last = "\n"
        for text in _parts(client, id, file):
            yield text
            last = text or last
        if not last.endswith("\n"):
            yield "\n"


def _parts(client: Client, id: str, file: LogFile) -> Iterator[str]:
    """A file from its beginning to what is now its end; a letter may lie across two parts."""
    decoder, offset = codecs.getincrementaldecoder("utf-8")("replace"), 0
    while (part := client.log(id, file.attempt, file.worker, offset=offset)).text:
        offset = part.next_offset
        yield decoder.decode(part.text)
    yield decoder.decode(b"", final=True)


def _write(text: str) -> None:
    """Raw to a file or a pipe; to a terminal only what cannot take it over."""
    if terminal.is_terminal():
        text = _STEERING.sub(lambda found: found[0] if len(found[0]) > 1 or found[0] in "\n\r\t" else "�", text)
    typer.echo(text, nl=False)
