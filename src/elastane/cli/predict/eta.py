"""``elastane predict eta``: the time left of a running training, from its log."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastane.cli.predict import options

if TYPE_CHECKING:
    from elastane.predict.eta.watch import LogWatch

HELP = "Time left of a running training, from its log."


def command(
    log: Path = typer.Argument(
        metavar="RUN|LOG", help="Folder of a run, or a log: JSON lines, Lightning CSV, HF."
    ),
    total_steps: int = typer.Option(None, min=1, help="Steps of the whole training, if the log does not say."),
    epochs: float = typer.Option(None, min=0.0, help="Epochs of the whole training, if the log does not say."),
    follow: bool = typer.Option(False, "--follow", help="Go on as the log grows."),
    every: float = typer.Option(1.0, min=0.05, help="Seconds between looks, with --follow."),
    as_json: bool = options.JSON,
) -> None:
    """Read a log once, or follow it."""
    from elastane.predict.eta.logs import follow as followed
    from elastane.predict.eta.logs import records
    from elastane.predict.eta.watch import LogWatch

    watch = LogWatch(total_steps, epochs)
    if not follow:
        for record in records(log):
            watch.observe(record)
        typer.echo(_eta_line(watch, as_json))
        return

    def wait() -> bool:
        time.sleep(every)
        return True

    said = ""
    for found in followed(log, wait, time.time):
        if found is not None:
            watch.observe(found)
            continue
        line = _eta_line(watch, as_json)
        if line != said:
            typer.echo(line)
            said = line
        if watch.ended:
            return


def _eta_line(watch: LogWatch, as_json: bool) -> str:
    from elastane.predict.interval import Unknown
    from elastane.predict.report import duration, interval_json

    left = watch.remaining()
    if as_json:
        known = {"unknown": left.reason} if isinstance(left, Unknown) else {"remaining_s": interval_json(left)}
        return json.dumps({"step": watch.step, "done": watch.done, **known})
    done = "" if watch.done is None else f", {watch.done:.1%} done"
    if isinstance(left, Unknown):
        return f"step {watch.step}{done}: time left {left}"
    span = f"{duration(left.low)} to {duration(left.high)}"
    return f"step {watch.step}{done}: {duration(left.middle)} left ({span} in nine of ten cases)"
