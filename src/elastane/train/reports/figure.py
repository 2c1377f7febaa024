"""Builds the charts of a run as one plotly figure, in JSON values: five panels over one time axis.

Colours of text and grid are left to the page, which knows whether it is light or dark; those of the curves are
of medium lightness, legible on both and distinct for most colour-blind readers (after Okabe and Ito).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from elastane.train.reports.events import Event, Resized, Stepped, Straggler, WorkerLost
from elastane.train.reports.history import History
from elastane.train.reports.series import Measure, Series, held, measured, thinned_steps
from elastane.train.reports.ticks import doubling_ticks, log_ticks
from elastane.train.reports.wording import finite, sentence

BLUE, ORANGE, GREEN, PURPLE = "#2f7ec2", "#d0680a", "#0f9b72", "#b9639b"
LOSS_AXIS = "yaxis5"

_LINES_AT_RESIZES = 100
_GAP = 0.035


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a panel: the quantity of a window that it shows, its axis and its look."""

    name: str
    measure: Measure
    axis: str
    colour: str
    format: str
    dash: str = "solid"
    steps: bool = False


CURVES = (
    Curve("total batch", lambda w: w.batch, "y2", BLUE, ",.0f", steps=True),
    Curve("per worker", lambda w: w.per_worker or None, "y2", ORANGE, ",.0f", "dash", steps=True),
    Curve("efficiency", lambda w: w.efficiency, "y3", GREEN, ".1%"),
    Curve("noise scale", lambda w: w.noise, "y4", PURPLE, ",.3~s", "dot"),
    Curve("loss", lambda w: w.loss, "y5", ORANGE, ".4~g"),
    Curve("samples/s", lambda w: w.samples_per_s, "y6", BLUE, ",.4~s"),
    Curve("goodput", lambda w: w.goodput, "y6", GREEN, ",.4~s", "dash"),
)

_MARKS = {
    "start": ("circle", GREEN),
    "grow": ("triangle-up", GREEN),
    "shrink": ("triangle-down", PURPLE),
    "move": ("diamond", BLUE),
    "recover": ("star", ORANGE),
    "rebuild": ("circle-open", BLUE),
    "lost worker": ("x", ORANGE),
    "straggler": ("hourglass", PURPLE),
}


def figure(history: History, points: int) -> dict[str, Any]:
    """Returns ``data`` and ``layout`` for plotly, no curve with more than about ``points`` points.

    ``logLoss`` names the axis of the layout, and the settings of it, for a logarithmic loss.
    """
    unit, size = _time_unit(history.span_s)
    traces = [_workers(history, size, points), *_marks(history, size)]
    for curve in CURVES:
        series = (held if curve.steps else measured)(history, curve.measure, points)
        if series.known:
            traces.append(_trace(series, size, curve))
    log_loss = {"type": "log", **log_ticks(_known(history, lambda w: w.loss))}
    return {"data": traces, "layout": _layout(history, unit, size), "logLoss": {"axis": LOSS_AXIS, **log_loss}}


def _time_unit(span_s: float) -> tuple[str, float]:
    return ("h", 3600.0) if span_s >= 7200 else ("min", 60.0) if span_s >= 300 else ("s", 1.0)


def _workers(history: History, size: float, points: int) -> dict[str, Any]:
    series = thinned_steps(_worker_line(history), points)
    return _trace(series, size, Curve("workers", lambda w: w.workers, "y", BLUE, ".0f", steps=True))


def _worker_line(history: History) -> Series:
    """Returns the workers at all changes, all windows (hovering finds only points), and the end of the run."""
    changes, windows = history.worker_changes(), history.of(Stepped)
    points = [(at_s, float(count)) for at_s, count in changes]
    points += [(history.since_start(window), float(window.workers)) for window in windows]
    points += [(history.span_s, float(count)) for _, count in changes[-1:]]
    points.sort(key=lambda point: point[0])
    return Series(tuple(at_s for at_s, _ in points), tuple(count for _, count in points))


def _trace(series: Series, size: float, curve: Curve) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines" if len(series.known) > 1 else "lines+markers",
        "name": curve.name,
        "x": [round(time_s / size, 4) for time_s in series.times_s],
        "y": [None if value is None else float(f"{value:.6g}") for value in series.values],
        "yaxis": curve.axis,
        "line": {
            "color": curve.colour,
            "width": 2,
            "dash": curve.dash,
            "shape": "hv" if curve.steps else "linear",
        },
        "hovertemplate": f"{curve.name} %{{y:{curve.format}}}<extra></extra>",
    }


def _marks(history: History, size: float) -> list[dict[str, Any]]:
    """Returns one group of marks per kind of event, on the line of workers."""
    groups: dict[str, list[tuple[float, int, str]]] = {}
    workers = 0
    for event in history.events:
        kind = _mark_of(event)
        if isinstance(event, Resized):
            workers = event.after
        elif isinstance(event, Stepped):
            workers = event.workers
        if kind is not None:
            point = (round(history.since_start(event) / size, 4), workers, escape(sentence(event) or ""))
            groups.setdefault(kind, []).append(point)
    return [_mark_trace(kind, groups[kind]) for kind in _MARKS if kind in groups]


def _mark_of(event: Event) -> str | None:
    match event:
        case Resized():
            return event.kind
        case WorkerLost():
            return "lost worker"
        case Straggler():
            return "straggler"
    return None


def _mark_trace(kind: str, points: Sequence[tuple[float, int, str]]) -> dict[str, Any]:
    symbol, colour = _MARKS[kind]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": kind,
        "x": [x for x, _, _ in points],
        "y": [y for _, y, _ in points],
        "text": [text for _, _, text in points],
        "yaxis": "y",
        "marker": {"symbol": symbol, "color": colour, "size": 11},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _layout(history: History, unit: str, size: float) -> dict[str, Any]:
    tops = _domains(5)
    return {
        "xaxis": {
            "title": {"text": f"time since start ({unit})"},
            "anchor": "y6",
            "rangemode": "nonnegative",
            "hoverformat": ".2~f",
        },
        "yaxis": _axis("workers", tops[0], rangemode="tozero"),
        "yaxis2": _axis("batch (samples)", tops[1], type="log", **doubling_ticks(_batches(history))),
        "yaxis3": _axis("efficiency", tops[2], range=[0, 1.05], tickformat=".0%"),
        "yaxis4": {
            "title": {"text": "noise (samples)"},
            "overlaying": "y3",
            "side": "right",
            "type": "log",
            "showgrid": False,
            **log_ticks(_known(history, lambda w: w.noise)),
        },
        LOSS_AXIS: _axis("loss", tops[3], nticks=5),
        "yaxis6": _axis("samples/s", tops[4], rangemode="tozero", exponentformat="SI", nticks=5),
        "shapes": [_line_at(history.since_start(event) / size) for event in _few_resizes(history)],
    }


def _axis(title: str, domain: list[float], **more: Any) -> dict[str, Any]:
    return {"title": {"text": title}, "domain": domain, "anchor": "x", **more}


def _domains(count: int) -> list[list[float]]:
    height = (1.0 - _GAP * (count - 1)) / count
    bottoms = [(count - 1 - i) * (height + _GAP) for i in range(count)]
    return [[round(bottom, 4), round(bottom + height, 4)] for bottom in bottoms]


def _batches(history: History) -> list[int]:
    return [size for w in history.of(Stepped) for size in (w.batch, w.per_worker) if size > 0]


def _known(history: History, measure: Measure) -> list[float]:
    return [value for w in history.of(Stepped) if (value := finite(measure(w))) is not None]


def _few_resizes(history: History) -> list[Resized]:
    resizes = [event for event in history.of(Resized) if event.kind != "start"]
    return resizes if len(resizes) <= _LINES_AT_RESIZES else []


def _line_at(x: float) -> dict[str, Any]:
    return {
        "type": "line",
        "x0": round(x, 4),
        "x1": round(x, 4),
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "layer": "below",
        "line": {"width": 1, "dash": "dot", "color": "#8a94a3"},
    }
