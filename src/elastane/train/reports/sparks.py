"""Draws a run on the terminal: one line of small bars per quantity, all over the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from rich.console import Console
from rich.table import Table
from rich.text import Text

from elastane.kit.durations import duration
from elastane.train.reports.events import Event, Resized, Straggler, WorkerLost
from elastane.train.reports.history import History, collect
from elastane.train.reports.series import Measure, Series, mean, measured
from elastane.train.reports.summary import summarise
from elastane.train.reports.wording import amount

_BARS = "▁▂▃▄▅▆▇█"
_MARKS = {
    "grow": ("▲", "green"),
    "shrink": ("▼", "magenta"),
    "move": ("◆", "blue"),
    "rebuild": ("○", "blue"),
    "straggler": ("~", "magenta"),
    "recover": ("★", "yellow"),
    "lost": ("✕", "bold red"),
}
"""Marks by kind of event; the later kind wins where two fall into one column."""

_ROWS: tuple[tuple[str, Measure, str, Callable[[float], str]], ...] = (
    ("batch", lambda w: w.batch, "blue", amount),
    ("per worker", lambda w: w.per_worker or None, "yellow", amount),
    ("efficiency", lambda w: w.efficiency, "green", lambda value: f"{value:.0%}"),
    ("noise", lambda w: w.noise, "magenta", amount),
    ("loss", lambda w: w.loss, "yellow", lambda value: f"{value:.4g}"),
    ("samples/s", lambda w: w.samples_per_s, "blue", amount),
)


def plot_terminal(events: Iterable[Event], console: Console) -> None:
    """Prints workers, batch, efficiency, loss and speed over time, then the figures of the run.

    Raises:
        TrainError: there are no events.
    """
    history = collect(events)
    console.print(_chart(history, max(16, console.width - 36)))
    console.print(summarise(history.events).table())


def _chart(history: History, width: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("", _marks(history, width), "")
    counts = _worker_columns(history, width)
    rows = [("workers", counts, "blue", lambda value: f"{value:.0f}")]
    for name, measure, style, form in _ROWS:
        columns = _columns(measured(history, measure, 10 * width), history.span_s, width)
        rows.append((name, columns, style, form))
    for name, columns, style, form in rows:
        known = [value for value in columns if value is not None]
        if known:
            extent = f"{form(min(known))} – {form(max(known))}" if min(known) < max(known) else form(known[0])
            table.add_row(name, Text(_bars(columns), style), Text(extent, "dim"))
    end = duration(history.span_s)
    table.add_row("", Text("0 s" + end.rjust(width - 3), "dim"), "")
    return table


def _columns(series: Series, span_s: float, width: int) -> list[float | None]:
    """Returns the mean of the values in each column; a column without data repeats the one before it."""
    sums: list[list[float]] = [[] for _ in range(width)]
    for time_s, value in zip(series.times_s, series.values, strict=True):
        if value is not None:
            sums[_column(time_s, span_s, width)].append(value)
    columns: list[float | None] = []
    for values in sums:
        columns.append(mean(values) if values else columns[-1] if columns else None)
    return columns


def _worker_columns(history: History, width: int) -> list[float | None]:
    """Returns the largest count within each column, so that a short time with more workers is seen."""
    columns: list[float | None] = [None] * width
    ends = [*history.worker_changes(), (history.span_s, 0)]
    for (start_s, count), (end_s, _) in pairwise(ends):
        for i in range(_column(start_s, history.span_s, width), _column(end_s, history.span_s, width) + 1):
            columns[i] = max(columns[i] or 0, count)
    return columns


def _column(time_s: float, span_s: float, width: int) -> int:
    return min(width - 1, int(time_s / span_s * width)) if span_s > 0 else 0


def _bars(columns: Sequence[float | None]) -> str:
    halves = [None if value is None else value / 2 for value in columns]  # their differences are always finite
    known = [half for half in halves if half is not None]
    low, high = min(known), max(known)

    def bar(half: float) -> str:
        # All alike is drawn at half height: neither nothing nor as much as can be.
        share = (half - low) / (high - low) if high > low else 0.5
        return _BARS[round(share * (len(_BARS) - 1))]

    return "".join(" " if half is None else bar(half) for half in halves)


def _marks(history: History, width: int) -> Text:
    kinds = list(_MARKS)
    found: dict[int, str] = {}
    for event in history.events:
        kind = _mark_of(event)
        if kind is None:
            continue
        column = _column(history.since_start(event), history.span_s, width)
        found[column] = max(kind, found.get(column, kind), key=kinds.index)
    text = Text()
    for column in range(width):
        text.append(*(_MARKS[found[column]] if column in found else (" ", "")))
    return text


def _mark_of(event: Event) -> str | None:
    match event:
        case Resized():
            return None if event.kind == "start" else event.kind
        case WorkerLost():
            return "lost"
        case Straggler():
            return "straggler"
    return None
