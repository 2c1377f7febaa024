"""Summarises a run in figures: steps, speed, workers, and the cost of its resizes and failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elastane.codec import encoded
from elastane.kit.durations import duration
from elastane.train.reports.events import Ended, Evaluated, Event, Resized, Saved, Started, Stepped, WorkerLost
from elastane.train.reports.history import History, collect, redone_steps, wall_s
from elastane.train.reports.wording import amount, figures, milliseconds


@dataclass(frozen=True, slots=True)
class Pauses:
    """Statistics of the pauses in training at resizes of one kind."""

    count: int
    median_s: float
    p95_s: float
    max_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker that died, the cause, and the step at which it did."""

    worker: str
    cause: str
    step: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of one run.

    ``wall_s`` leaves out the time between sessions; ``samples_per_s`` is a mean over all of it, pauses included,
    ``mean_workers`` one over the time in which there were any.  ``workers`` are (seconds since start, count) at
    changes.  ``outcome`` of a run without an ``Ended`` event is ``running``, even if its processes have died.
    """

    run: str
    script: str
    mode: str
    outcome: str
    cause: str
    sessions: int
    steps: int
    redone_steps: int
    wall_s: float
    samples: int
    samples_per_s: float | None
    workers: tuple[tuple[float, int], ...]
    mean_workers: float | None
    pauses: Mapping[str, Pauses]
    lost: tuple[Lost, ...]
    checkpoints: int
    checkpoint_blocking_s: float
    final_loss: float | None
    final_metrics: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as a JSON object; infinities and NaN become strings."""
        document: dict[str, Any] = encoded(self)
        return document

    def table(self) -> RenderableType:
        """Returns the figures as tables for a terminal."""
        return Group(_facts_table(self.facts()), *([_pause_table(self.pauses)] if self.pauses else []))

    def facts(self) -> dict[str, str]:
        """Returns the figures as names and formatted values; unknown ones are left out."""
        lost = ", ".join(f"{each.worker} at step {each.step:,}" for each in self.lost[:5])
        facts = {
            "run": self.run,
            "script": self.script,
            "mode": self.mode,
            "outcome": f"{self.outcome}: {self.cause}" if self.cause else self.outcome,
            "steps": f"{self.steps:,}",
            "time": duration(self.wall_s) + (f" in {self.sessions} sessions" if self.sessions > 1 else ""),
            "samples/s": "" if self.samples_per_s is None else amount(self.samples_per_s),
            "workers": _workers(self),
            "lost workers": f"{len(self.lost)}: {lost}{', …' if len(self.lost) > 5 else ''}" if lost else "",
            "steps redone": f"{self.redone_steps:,}" if self.redone_steps or self.lost else "",
            "checkpoints": _checkpoints(self),
            "final loss": "" if self.final_loss is None else f"{self.final_loss:.4g}",
            "metrics": figures(self.final_metrics),
        }
        return {name: value for name, value in facts.items() if value}


def summarise(events: Iterable[Event]) -> Summary:
    """Computes the figures of a run.

    Raises:
        TrainError: there are no events.
    """
    history = collect(events)
    start = next(iter(history.of(Started)), None)
    end = history.events[-1]
    ended = end if isinstance(end, Ended) else None
    windows, saves = history.of(Stepped), history.of(Saved)
    walls_s = sum(wall_s(session) for session in history.sessions)
    samples = sum(window.steps * window.batch for window in windows)
    changes = history.worker_changes()
    return Summary(
        run=start.run if start else "",
        script=start.script if start else "",
        mode=start.mode if start else "",
        outcome=ended.outcome if ended else "running",
        cause=ended.cause if ended else "",
        sessions=len(history.sessions),
        steps=_last_step(windows, ended),
        redone_steps=redone_steps(history),
        wall_s=walls_s,
        samples=samples,
        samples_per_s=samples / walls_s if samples and walls_s > 0 else None,
        workers=tuple(changes),
        mean_workers=_mean_workers(changes, history.span_s),
        pauses=pauses_by_kind(history.of(Resized)),
        lost=tuple(Lost(each.worker, each.cause, each.step) for each in history.of(WorkerLost)),
        checkpoints=len(saves),
        checkpoint_blocking_s=sum(save.blocking_s for save in saves),
        final_loss=next((each.loss for each in reversed(windows) if each.loss is not None), None),
        final_metrics=_final_metrics(history),
    )


def pauses_by_kind(resizes: Sequence[Resized]) -> dict[str, Pauses]:
    """Computes statistics of the pauses of each kind of resize, in order of first appearance."""
    by_kind: dict[str, list[float]] = {}
    for resize in resizes:
        by_kind.setdefault(resize.kind, []).append(resize.pause_s)
    return {kind: _statistics(times) for kind, times in by_kind.items()}


def _statistics(times: Sequence[float]) -> Pauses:
    with np.errstate(invalid="ignore"):  # a clock that broke makes strange figures, but no noise
        p95 = float(np.percentile(times, 95))
    return Pauses(len(times), float(np.median(times)), p95, max(times), sum(times))


def _last_step(windows: Sequence[Stepped], ended: Ended | None) -> int:
    return ended.step if ended else windows[-1].step if windows else 0


def _mean_workers(changes: Sequence[tuple[float, int]], span_s: float) -> float | None:
    """Returns the mean number of workers over the time in which there were any."""
    spans = [(count, b - a) for (a, count), (b, _) in pairwise([*changes, (span_s, 0)]) if count]
    there_s = sum(seconds for _, seconds in spans)
    return sum(count * seconds for count, seconds in spans) / there_s if there_s > 0 else None


def _final_metrics(history: History) -> dict[str, float]:
    """Returns the last value of each metric; evaluations win over figures of the same name from steps."""
    measured = [window.metrics for window in history.of(Stepped)]
    evaluated = [evaluation.metrics for evaluation in history.of(Evaluated)]
    return {name: value for metrics in (*measured, *evaluated) for name, value in metrics.items()}


def _workers(summary: Summary) -> str:
    counts = [str(count) for _, count in summary.workers]
    shown = counts if len(counts) <= 8 else [*counts[:4], "…", *counts[-3:]]
    mean = "" if summary.mean_workers is None or len(counts) < 2 else f" (mean {summary.mean_workers:.2f})"
    return " → ".join(shown) + mean


def _checkpoints(summary: Summary) -> str:
    blocked = milliseconds(summary.checkpoint_blocking_s)
    return f"{summary.checkpoints:,}, training waited {blocked} in all" if summary.checkpoints else ""


def _facts_table(facts: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in facts.items():
        table.add_row(Text(name, "dim"), Text(value, overflow="fold"))
    return table


def _pause_table(pauses: Mapping[str, Pauses]) -> Table:
    table = Table("pauses", box=SIMPLE_HEAD)
    for heading in ("count", "median", "p95", "max", "in all"):
        table.add_column(heading, justify="right")
    for kind, each in pauses.items():
        times = (each.median_s, each.p95_s, each.max_s, each.total_s)
        table.add_row(kind, f"{each.count:,}", *(milliseconds(time_s) for time_s in times))
    return table
