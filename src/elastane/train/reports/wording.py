"""Formats events and figures for people: the progress line, its messages, and labels in charts."""

from __future__ import annotations

import math
from collections.abc import Mapping

from elastane.kit.durations import duration
from elastane.train.reports.events import (
    Diverged,
    Ended,
    Evaluated,
    Event,
    Limited,
    Rebatched,
    Resized,
    Started,
    Stepped,
    Straggler,
    Warming,
    Warned,
    WorkerLost,
)

_RESIZES = {
    "grow": "grew",
    "shrink": "shrank",
    "move": "moved",
    "recover": "recovered",
}


def sentence(event: Event) -> str | None:
    """Describes an event in one line for somebody watching; None for events that are only counted."""
    text = _sentence(event)
    return None if text is None else " ".join(text.split())


def _sentence(event: Event) -> str | None:
    match event:
        case Started():
            known = f", batch {event.batch:,}, seed {event.seed}" if event.batch else ""
            return f"started {event.run}: {event.script}, mode {event.mode}, {workers(event.workers)}{known}"
        case Resized():
            return _resize(event)
        case Warming():
            return warming(event.worker, event.for_s)
        case WorkerLost():
            return f"lost worker {event.worker} at step {event.step:,}: {event.cause}"
        case Limited():
            where = f"with {event.before:,} samples on {event.worker} at step {event.step:,}"
            return f"out of memory {where}: going on with {event.after:,} at most, in more passes"
        case Straggler():
            share = event.rate / event.median if event.median else math.nan
            return f"worker {event.worker} is slow: {share:.0%} of the median compute rate"
        case Rebatched():
            return f"batch {event.before:,} → {event.after:,} at step {event.step:,}: {event.reason}"
        case Evaluated():
            # Scripts count epochs from 0 or from 1; steps mean the same everywhere.
            measured = f": {figures(event.metrics)}" if event.metrics else ""
            return f"evaluated at step {event.step:,}{measured}"
        case Warned():
            return f"warning: {event.text}"
        case Diverged():
            return f"replicas differ at step {event.step:,}: {', '.join(event.workers)}"
        case Ended():
            cause = f": {event.cause}" if event.cause else ""
            return f"{event.outcome} at step {event.step:,} after {duration(event.wall_s)}{cause}"
    return None


def warming(worker: str, for_s: float) -> str:
    """Says why there is no progress yet: a worker (or, if empty, the whole run) is still starting."""
    if not worker:
        return f"starting for {duration(for_s)}: importing and building the model"
    return f"worker {worker} is compiling or warming up for {duration(for_s)}, in one of its first steps"


def _resize(event: Resized) -> str:
    how = " (shadow join)" if event.shadow else ""
    if event.kind == "start":
        return f"training with {workers(event.after)} after {milliseconds(event.pause_s)}{how}"
    if event.kind == "rebuild":
        pause = milliseconds(event.pause_s)
        return (
            f"{workers(event.after)} reconnected over another transport at step {event.step:,}, pause {pause}"
        )
    return (
        f"{_RESIZES[event.kind]} {event.before} → {workers(event.after)} at step {event.step:,}, "
        f"pause {milliseconds(event.pause_s)}{how}"
    )


def progress_parts(step: Stepped, remaining_s: float | None) -> list[tuple[int, str]]:
    """Returns the parts of a progress line from left to right, each with its rank: high ranks are dropped first."""
    parts: list[tuple[int, str | None]] = [
        (0, None if finite(step.fraction) is None else f"{step.fraction:.1%}"),
        (6, f"epoch {step.epoch + 1}" + (f"/{step.epochs}" if step.epochs else "")),
        (2, f"step {step.step:,}"),
        (3, None if step.loss is None else f"loss {step.loss:.4g}"),
        (4, workers(step.workers)),
        # Not every script says how many samples a step has.
        (7, f"batch {step.batch:,}" if step.batch else None),
        (5, f"{amount(step.samples_per_s)} samples/s" if step.batch else None),
        (8, None if step.efficiency is None else f"efficiency {step.efficiency:.0%}"),
        (1, None if remaining_s is None else f"{duration(remaining_s)} left"),
    ]
    return [(rank, text) for rank, text in parts if text is not None]


def finite(value: float | None) -> float | None:
    """Returns the value, or None if it is unknown, infinite or not a number."""
    return value if value is not None and math.isfinite(value) else None


def workers(count: int) -> str:
    """Formats a count of workers with its noun."""
    return f"{count} worker" if count == 1 else f"{count} workers"


def figures(metrics: Mapping[str, float]) -> str:
    """Formats names and numbers in one line."""
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())


def amount(value: float) -> str:
    """Formats a rate or a size with about three digits."""
    if value >= 1e6:
        return f"{value / 1e6:,.3g}M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def milliseconds(seconds: float) -> str:
    """Formats a pause in milliseconds, with a decimal where it is short."""
    return f"{seconds * 1e3:,.0f} ms" if seconds >= 0.01 else f"{round(seconds * 1e3, 2) + 0.0:.2g} ms"
