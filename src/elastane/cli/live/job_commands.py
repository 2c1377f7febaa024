"""``elastane cancel``, ``suspend``, ``resume``, ``scale`` and ``move``: what an owner may do with a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import completion, connection, options, terminal, times
from elastane.cli.live.exit_codes import ExitCode, code_of
from elastane.cli.live.why import ahead_words
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.service.messages import JobSummary

CANCEL_HELP = "End jobs for good."
SUSPEND_HELP = "Save jobs and put them on hold."
RESUME_HELP = "Let jobs that are on hold compete again."
SCALE_HELP = "Pin the number of workers of a job, or with --auto leave it to the policy again."
MOVE_HELP = "Move a job to a node, where it stays until it is scaled or resumed."


def cancel(ids: list[str] = options.JOBS, as_json: bool = options.AS_JSON) -> None:
    """Cancels jobs, one after the other."""
    _each(ids, connection.connect().cancel, as_json)


def suspend(ids: list[str] = options.JOBS, as_json: bool = options.AS_JSON) -> None:
    """Suspends jobs and puts them on hold."""
    _each(ids, connection.connect().suspend, as_json)


def resume(ids: list[str] = options.JOBS, as_json: bool = options.AS_JSON) -> None:
    """Takes jobs off hold, so that they compete again."""
    _each(ids, connection.connect().resume, as_json)


def scale(
    id: str = options.JOB,
    workers: int = typer.Argument(None, min=1, help="How many workers from now on."),
    auto: bool = typer.Option(False, "--auto", help="Leave the size to the policy again."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Pins the number of workers of a job, or leaves it to the policy."""
    if auto == (workers is not None):
        raise ElastaneError(
            "say either a number of workers or --auto: elastane scale JOB 4, elastane scale JOB --auto"
        )
    job = connection.connect().scale(id, workers)
    _print(job, as_json, "size left to the policy" if auto else f"pinned to {workers}")


def move(
    id: str = options.JOB,
    to: str = typer.Option(..., "--to", metavar="NODE", help="Where to.", autocompletion=completion.nodes),
    as_json: bool = options.AS_JSON,
) -> None:
    """Pins a job to a node."""
    job = connection.connect().move(id, to)
    _print(job, as_json, f"to move to {to}" if job.waits_for else f"moving to {to}")


@dataclass(frozen=True, slots=True)
class _Failure:
    """A job for which it could not be done."""

    id: str
    error: ElastaneError


def _each(ids: Sequence[str], act: Callable[[str], JobSummary], as_json: bool) -> None:
    """Do it for every job; one that fails does not keep the others from it."""
    done: list[JobSummary] = []
    failed: list[_Failure] = []
    for id in dict.fromkeys(ids):
        try:
            done.append(act(id))
        except ElastaneError as error:
            failed.append(_Failure(id, error))
            terminal.say(f"error: {id}: {error}")
        else:
            if not as_json:
                _print(done[-1], False)
    if as_json:
        problems = [{"id": each.id, "error": str(each.error)} for each in failed]
        typer.echo(terminal.document({"done": done, "failed": problems}))
    if failed:
        raise typer.Exit(code_of(failed[0].error) if len(ids) == 1 else ExitCode.FAILED)


def _print(job: JobSummary, as_json: bool, what: str = "") -> None:
    if as_json:
        typer.echo(terminal.document(job))
        return
    held = ", on hold" if job.held else ""
    # Of a job that was told to change, what becomes of it meanwhile; why others wait is not the question here.
    meanwhile = f": {job.reason}" if job.waits_for and job.reason else ""
    typer.echo(
        terminal.clean(f"{job.id} ({job.name}) {job.state}{held}{f', {what}' if what else ''}{meanwhile}")
    )
    if job.waits_for:
        typer.echo(terminal.clean(f"  waits for: {ahead_words(job.waits_for, times.now_s())}"))
