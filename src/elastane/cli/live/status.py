"""``elastane status``: everything about one job, or the cluster in a few lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import completion, connection, options, terminal, times, wait_for_end
from elastane.cli.live.curve import chart
from elastane.cli.live.eta import end_words
from elastane.cli.live.queue import nodes_words, workers_words
from elastane.errors import ElastaneError
from elastane.kit.durations import duration

if TYPE_CHECKING:
    from elastane.service.messages import JobDetail, ServerInfo, Training

HELP = """Show a job: what it does, how fast, why this size, when it ends.  Without JOB: the cluster.

With --wait: 0 when the job succeeded, 10 when it failed, 11 when it was cancelled.
"""

_LAST = 5
"""So many transitions are shown."""


def command(
    id: str = typer.Argument(None, metavar="JOB", help="Id of a job.", autocompletion=completion.jobs),
    wait: bool = typer.Option(False, "--wait", help="Wait for the end; the exit code tells which."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Prints one job in detail, or the cluster."""
    client = connection.connect()
    if id is None:
        if wait:
            raise ElastaneError("--wait needs a job: elastane status JOB --wait")
        _print_server(client.info(), as_json)
        return
    job = wait_for_end.wait(client, id) if wait else client.job(id)
    typer.echo(terminal.document(job) if as_json else "\n".join(job_lines(job, times.now_s())))
    if wait:
        raise typer.Exit(wait_for_end.code_of_end(job))


def job_lines(job: JobDetail, now_s: float) -> list[str]:
    """The lines that describe a job to a person."""
    reason = f": {job.kind_reason}" if job.kind_reason else ""
    lines = [terminal.clean(f"{job.id} ({job.name}) {job.state}, {job.kind}{reason}")]
    lines += [f"  {label:<10}{terminal.clean(text)}" for label, text in _facts(job, now_s)]
    lines += [f"  {each}" for each in chart(job.curve)]
    if job.processes:
        columns = [terminal.Column(each) for each in ("process", "node", "pid", "doing")]
        rows = [(each.name, each.node, each.pid or "–", each.doing) for each in job.processes]
        lines += [f"  {each}" for each in terminal.table(columns, rows)]
    return lines + list(_life(job, now_s))


def _facts(job: JobDetail, now_s: float) -> Iterator[tuple[str, str]]:
    yield "owner", f"{job.owner}, tenant {job.tenant}, class {job.klass}, priority {job.priority}"
    words = job.spec.get("command", "")
    yield "command", shlex.join(map(str, words)) if isinstance(words, list) else str(words)
    yield "directory", job.directory
    if job.code_from:
        yield "code", job.code_from
    python = job.spec.get("python")
    if isinstance(python, dict):
        yield "python", str(python.get("path", ""))
    where = f" on {nodes_words(job)}" if job.nodes else ""
    yield "workers", f"{workers_words(job)}{where}, attempt {job.attempt}"
    yield "submitted", times.ago(job.submitted_s, now_s)
    if job.training is not None:
        yield from _training(job.training, job.progress)
    elif job.progress is not None:
        yield "progress", times.bar(job.progress)
    if job.ended_s is not None:
        yield "ended", f"{times.ago(job.ended_s, now_s)}{_exit_words(job)}"
    elif job.eta is not None:
        yield "ends", end_words(job.eta, now_s)
    if job.reason:
        yield "why", job.reason


def _exit_words(job: JobDetail) -> str:
    if job.exit is not None and job.exit.signal is not None:
        return f", killed by signal {job.exit.signal}"
    return "" if job.code is None else f", exit code {job.code}"


def _training(training: Training, progress: float | None) -> Iterator[tuple[str, str]]:
    epochs = f"epoch {training.epoch + 1}" + (f"/{training.epochs}" if training.epochs else "")
    loss = "" if training.loss is None else f", loss {training.loss:.4g}"
    yield "progress", f"{times.bar(progress)}, {epochs}, step {training.step:,}{loss}"
    if training.metrics:
        yield "metrics", ", ".join(f"{name} {value:.4g}" for name, value in training.metrics.items())
    if training.batch:  # not every script says how many samples a step has
        yield from _speed(training)
    yield (
        "changes",
        (
            f"{times.counted(training.resizes, 'resize')} with {duration(training.pauses_s)} of pauses, "
            f"{times.counted(training.workers_lost, 'worker')} lost, "
            f"{times.counted(training.redone_steps, 'step')} done again"
        ),
    )


def _speed(training: Training) -> Iterator[tuple[str, str]]:
    parts = f" ({training.per_worker:,} per worker" if training.per_worker else ""
    if parts:
        parts += f" in {training.accumulation + 1} passes)" if training.accumulation else ")"
    yield "batch", f"{training.batch:,}{parts}, learning rate ×{training.lr_factor:.3g}"
    speed = f"{times.amount(training.samples_per_s)} samples/s"
    if training.efficiency is None:
        yield "goodput", f"not known yet, at {speed}"
    else:
        good = times.amount(training.goodput)
        yield "goodput", f"{good}, from {speed} at {times.percent(training.efficiency)} statistical efficiency"


def _life(job: JobDetail, now_s: float) -> Iterator[str]:
    if not job.life:
        return
    columns = [terminal.Column("when", right=True), terminal.Column("became"), terminal.Column("because")]
    rows = [
        (times.ago(step.at_s, now_s), step.target, f"{step.cause}{f': {step.detail}' if step.detail else ''}")
        for step in job.life[-_LAST:]
    ]
    yield from (f"  {each}" for each in terminal.table(columns, rows))


def _print_server(info: ServerInfo, as_json: bool) -> None:
    if as_json:
        typer.echo(terminal.document(info))
        return
    jobs = ", ".join(f"{count} {state}" for state, count in info.jobs.items() if count) or "none"
    up = duration(times.now_s() - info.started_s)
    slots = f"{times.counted(info.slots, 'slot')} on {times.counted(info.nodes, 'node')}"
    typer.echo(terminal.clean(f"elastane {info.version}, up for {up}, home {info.home}"))
    typer.echo(terminal.clean(f"{slots}, policy {info.policy}"))
    typer.echo(terminal.clean(f"jobs: {jobs}"))
    for warning in info.warnings:
        terminal.say(f"warning: {warning}")
