"""Draws a run: as one HTML file that needs no network, or on the terminal (``plot_terminal``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from elastane.kit.durations import duration
from elastane.kit.html_page import Charts, Page, filled, render, resource
from elastane.train.errors import TrainError
from elastane.train.reports.events import Diverged, Event, Resized, Stepped, Warned
from elastane.train.reports.figure import figure
from elastane.train.reports.history import History, collect
from elastane.train.reports.sparks import plot_terminal
from elastane.train.reports.summary import Pauses, pauses_by_kind, summarise
from elastane.train.reports.wording import finite, milliseconds, sentence

__all__ = ["plot_html", "plot_terminal"]

_HERE = "elastane.train.reports"
_POINTS = 2_000
_ROWS = 300
_NOTES = 30


def plot_html(events: Iterable[Event], path: Path) -> None:
    """Writes a page with workers, batch, efficiency, loss and speed over time, and every pause in a table.

    Raises:
        TrainError: there are no events, or the file cannot be written.
    """
    history = collect(events)
    summary = summarise(history.events)
    resizes = history.of(Resized)
    values = {
        "kinds": "".join(_kind_row(kind, each) for kind, each in pauses_by_kind(resizes).items()),
        "pauses": _pause_rows(history, resizes),
    }
    page = Page(
        summary.run or summary.script or "training run",
        "training run",
        {name: value for name, value in summary.facts().items() if name != "run"},
        resource(_HERE, "page.css"),
        filled(resource(_HERE, "page.html"), values),
        lead=f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in _notes(history))}</ul>',
        charts=Charts(figure(history, _POINTS), resource(_HERE, "page.js")),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(page), encoding="utf-8")
    except OSError as error:
        raise TrainError(f"the plot cannot be written to {path}: {error.strerror}") from error


def _notes(history: History) -> list[str]:
    """List what a reader must know about the charts, and what the run itself warned of."""
    windows, resizes = history.of(Stepped), history.of(Resized)
    notes = []
    if history.newer_version is not None:
        notes.append(
            f"These events are of version {history.newer_version}; a newer Elastane may show more of them."
        )
    if len(windows) > _POINTS:
        notes.append(f"Curves are averages over {_POINTS:,} equal intervals.")
    if broken := sum(w.loss is not None and finite(w.loss) is None for w in windows):
        notes.append(
            f"The loss was not finite in {broken:,} of {len(windows):,} windows; these are gaps in its curve."
        )
    if len(resizes) > _ROWS:
        notes.append(f"The table of pauses shows the {_ROWS} longest of {len(resizes):,}.")
    said = [event for event in history.events if isinstance(event, Warned | Diverged)]
    notes += [f"{duration(history.since_start(event))}: {sentence(event)}" for event in said[:_NOTES]]
    return [*notes, *([f"and {len(said) - _NOTES:,} more warnings"] if len(said) > _NOTES else [])]


def _kind_row(kind: str, each: Pauses) -> str:
    times = (each.median_s, each.p95_s, each.max_s, each.total_s)
    cells = "".join(f"<td>{milliseconds(time_s)}</td>" for time_s in times)
    return f'<tr><th scope="row">{escape(kind)}</th><td>{each.count:,}</td>{cells}</tr>'


def _pause_rows(history: History, resizes: Sequence[Resized]) -> str:
    """Renders head and body of the table of pauses, with one column per part of any breakdown."""
    shown = sorted(sorted(resizes, key=lambda each: -each.pause_s)[:_ROWS], key=lambda each: each.at_s)
    parts = list(dict.fromkeys(part for each in shown for part in each.breakdown))
    head = ["at", "kind", "workers", "step", "pause", *(part.replace("_", " ") for part in parts)]
    rows = "".join(_row([*_pause_cells(history, each), *_part_cells(each, parts)]) for each in shown)
    headings = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    return f"<thead><tr>{headings}</tr></thead><tbody>{rows}</tbody>"


def _pause_cells(history: History, resize: Resized) -> list[str]:
    return [
        duration(history.since_start(resize)),
        f"{resize.kind} (shadow)" if resize.shadow else resize.kind,
        f"{resize.before} → {resize.after}",
        f"{resize.step:,}",
        milliseconds(resize.pause_s),
    ]


def _part_cells(resize: Resized, parts: Sequence[str]) -> list[str]:
    return [milliseconds(resize.breakdown[part]) if part in resize.breakdown else "–" for part in parts]


def _row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
