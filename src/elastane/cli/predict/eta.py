"""Implements ``elastane predict eta``: predicts the time left of a running training from its log."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from elastane.cli.predict import options
from elastane.cli.predict.outcome import Judge, read_predicted

if TYPE_CHECKING:
    from elastane.predict.eta.log_session import LogWatch
    from elastane.predict.eta.stop_rule import EarlyStop
    from elastane.predict.interval import Interval, Unknown

HELP = "Time left of a running training, from its log."
_RISING = ("acc", "auc", "f1", "bleu", "rouge", "map", "iou", "score", "precision", "recall", "reward")


def command(
    log: Path = typer.Argument(
        metavar="RUN|LOG", help="Folder of a run, or a log: JSON lines, Lightning CSV, HF."
    ),
    total_steps: int = typer.Option(None, min=1, help="Steps of the whole training, if the log does not say."),
    epochs: float = typer.Option(None, min=0.0, help="Epochs of the whole training, if the log does not say."),
    metric: str = typer.Option(None, help="What its validations measure; with --target or --patience. [loss]"),
    target: float = typer.Option(None, help="It stops early when the metric is as good as this."),
    patience: int = typer.Option(
        None, min=1, help="It stops early after so many validations that were no better."
    ),
    higher: bool = typer.Option(
        None, "--higher/--lower", help="Which values of the metric are better; by default its name tells."
    ),
    predicted: Path = typer.Option(
        None, help="What predict step --json said of it; the error is kept for later predictions."
    ),
    follow: bool = typer.Option(False, "--follow", help="Go on as the log grows."),
    every: float = typer.Option(1.0, min=0.05, help="Seconds between looks, with --follow."),
    as_json: bool = options.JSON,
) -> None:
    """Reads a log once and prints the time left, or follows the log and prints it again with all news."""
    from elastane.predict.eta.log_session import LogWatch
    from elastane.predict.eta.logs import follow as followed
    from elastane.predict.eta.logs import records

    watch = LogWatch(total_steps, epochs, _rule(metric, target, patience, higher), metric)
    judge = Judge(read_predicted(predicted), log) if predicted is not None else None
    if not follow:
        for record in records(log):
            watch.observe(record)
        typer.echo(_eta_line(watch, judge, as_json))
        return

    def wait() -> bool:
        time.sleep(every)
        return True

    news = True
    for found in followed(log, wait, time.time):
        if found is not None:
            watch.observe(found)
            news = True
            continue
        if news:
            typer.echo(_eta_line(watch, judge, as_json, time.time()))
            news = False
        if watch.ended:
            return


def _rule(
    metric: str | None, target: float | None, patience: int | None, higher: bool | None
) -> EarlyStop | None:
    from elastane.errors import ElastaneError
    from elastane.predict.eta.stop_rule import EarlyStop

    if target is None and patience is None:
        if metric is not None or higher is not None:
            raise ElastaneError("--metric says by what it stops early; say when, by --target or --patience")
        return None
    rising = any(part in (metric or "").lower() for part in _RISING) if higher is None else higher
    return EarlyStop(target=target, patience=patience, rising=rising)


def _eta_line(watch: LogWatch, judge: Judge | None, as_json: bool, now_s: float | None = None) -> str:
    from elastane.kit.durations import duration
    from elastane.predict.interval import Unknown

    left = watch.remaining(now_s)
    ratio = _ratio(watch, judge)
    if as_json:
        return json.dumps(
            _eta_json(watch, left) | ({} if judge is None else {"measured_over_predicted": ratio})
        )
    done = "" if watch.done is None else f", {watch.done:.1%} done"
    if isinstance(left, Unknown):
        return f"step {watch.step}{done}: time left {left}"
    span = f"{duration(left.low)} to {duration(left.high)}"
    stop = watch.engine.stop if watch.engine is not None and not watch.ended else None
    why = "" if stop is None else f"; may stop early: {stop.reason}"
    why += "" if ratio is None else f"; a step takes {ratio:.2f} times what was predicted"
    return f"step {watch.step}{done}: {duration(left.middle)} left ({span} in nine of ten cases){why}"


def _ratio(watch: LogWatch, judge: Judge | None) -> float | None:
    if judge is None:
        return None
    judge.look(watch)
    return judge.ratio


def _eta_json(watch: LogWatch, left: Interval | Unknown) -> dict[str, Any]:
    from elastane.predict.interval import Unknown
    from elastane.predict.report import interval_json

    engine = watch.engine
    document: dict[str, Any] = {"step": watch.step, "done": watch.done}
    document |= {"unknown": left.reason} if isinstance(left, Unknown) else {"remaining_s": interval_json(left)}
    if engine is None:
        return document
    rate = engine.rate
    document["elapsed_s"] = {kind.value: seconds for kind, seconds in engine.elapsed_s.items()}
    document["rate_s"] = None if isinstance(rate, Unknown) else interval_json(rate)
    if engine.stop is not None:
        document["stop"] = {
            "validations": len(engine.values),
            "ends": interval_json(engine.stop.ends),
            "verdict": engine.stop.verdict.value,
            "reason": engine.stop.reason,
        }
    return document
