"""Builds the charts of a demo as one plotly figure in JSON values: slots, goodput and pauses over one time axis."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from html import escape
from typing import Any

from elastane.demo.pauses import RECOVER, Pause, pauses_of
from elastane.demo.tale import Tale
from elastane.demo.timeline import Change
from elastane.train.reports.events import Event, Stepped
from elastane.train.reports.ticks import log_ticks
from elastane.train.reports.wording import milliseconds

_COLOURS = ("#2f7ec2", "#d0680a", "#0f9b72", "#b9639b", "#7a5cc9")
"""Colours of jobs, of medium lightness: legible on light and dark, and distinct for most colour-blind readers."""
_GREY = "#8a94a3"
_LEAST_MS = 0.1
"""A shorter pause is drawn as this: the axis is logarithmic."""
_GAP_S = 4.0
"""Windows of training are about a second long; a longer silence is a gap in the curve."""
_PANELS = ([0.62, 1.0], [0.31, 0.56], [0.0, 0.25])


def figure(tale: Tale, slots: int) -> dict[str, Any]:
    """Returns ``data`` and ``layout`` for plotly."""
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(tale.changes)}
    traces = [_slots(tale, name, colour) for name, colour in colours.items()]
    traces += [_goodput(tale, name, colour) for name, colour in colours.items() if _windows(tale, name)]
    traces += [_pauses(tale, name, colour) for name, colour in colours.items() if pauses_of(_of(tale, name))]
    return {"data": traces, "layout": _layout(tale, slots)}


def moments(tale: Tale) -> list[float]:
    """Returns the sorted times at which any job changed, with the begin and the end of the demo."""
    found = {change.at_s for changes in tale.changes.values() for change in changes}
    return sorted({tale.began_s, *found, tale.ended_s})


def slots_at(changes: Sequence[Change], at_s: float) -> int:
    """Returns the number of slots that a job had at a moment."""
    index = bisect_right([change.at_s for change in changes], at_s)
    return changes[index - 1].workers if index else 0


def _slots(tale: Tale, name: str, colour: str) -> dict[str, Any]:
    times = moments(tale)
    return {
        **_trace(name, colour, "y"),
        "x": [_since(tale, at_s) for at_s in times],
        "y": [slots_at(tale.changes[name], at_s) for at_s in times],
        "mode": "lines",
        "stackgroup": "slots",
        "line": {"shape": "hv", "width": 0},
        "fillcolor": colour,
        "hovertemplate": f"{escape(name)}: %{{y}}<extra></extra>",
    }


def _goodput(tale: Tale, name: str, colour: str) -> dict[str, Any]:
    points = goodput_points(_windows(tale, name))
    return {
        **_trace(name, colour, "y2"),
        "x": [_since(tale, at_s) for at_s, _ in points],
        "y": [rate and float(f"{rate:.4g}") for _, rate in points],
        "mode": "lines+markers",
        "marker": {"size": 3},
        "line": {"color": colour, "width": 2},
        "showlegend": False,
        "hovertemplate": f"{escape(name)}: %{{y:,.3~s}} samples/s<extra></extra>",
    }


def goodput_points(windows: Sequence[Stepped]) -> list[tuple[float, float | None]]:
    """Returns (moment, goodput in samples per second), with None in gaps where no window was reported."""
    points: list[tuple[float, float | None]] = []
    for before, window in zip([None, *windows], windows, strict=False):
        if before is not None and window.at_s - before.at_s > _GAP_S:
            points.append((before.at_s, None))
        points.append((window.at_s, window.samples_per_s * (window.efficiency or 1.0)))
    return points


def _pauses(tale: Tale, name: str, colour: str) -> dict[str, Any]:
    pauses = pauses_of(_of(tale, name))
    return {
        **_trace(name, colour, "y3"),
        "x": [_since(tale, each.at_s) for each in pauses],
        "y": [max(_LEAST_MS, round(each.pause_s * 1e3, 2)) for each in pauses],
        "text": [_words(name, each) for each in pauses],
        "mode": "markers",
        "marker": {
            "size": 11,
            "color": colour,
            "symbol": ["star" if each.kind == RECOVER else "circle" for each in pauses],
        },
        "showlegend": False,
        "hovertemplate": "%{text}<extra></extra>",
    }


def _trace(name: str, colour: str, axis: str) -> dict[str, Any]:
    return {"type": "scatter", "name": name, "legendgroup": name, "yaxis": axis, "marker": {"color": colour}}


def _words(name: str, pause: Pause) -> str:
    return escape(f"{name} {pause.kind} {pause.before}→{pause.after}: pause {milliseconds(pause.pause_s)}")


def _windows(tale: Tale, name: str) -> list[Stepped]:
    return [event for event in _of(tale, name) if isinstance(event, Stepped) and event.samples_per_s > 0]


def _rates(tale: Tale) -> list[float]:
    points = [point for name in tale.events for point in goodput_points(_windows(tale, name))]
    return [rate for _, rate in points if rate is not None]


def _of(tale: Tale, name: str) -> tuple[Event, ...]:
    return tale.events.get(name, ())


def _since(tale: Tale, at_s: float) -> float:
    return round(max(0.0, at_s - tale.began_s), 3)


def _layout(tale: Tale, slots: int) -> dict[str, Any]:
    top, middle, bottom = _PANELS
    blows = [
        (_since(tale, blow.at_s), f"{blow.target.value} {blow.name} killed") for blow in tale.summary.blows
    ]
    return {
        "xaxis": {"title": {"text": "time (s)"}, "anchor": "y3", "rangemode": "nonnegative"},
        "yaxis": {
            "title": {"text": "slots"},
            "domain": top,
            "anchor": "x",
            "range": [0, slots + 0.1],
            "dtick": 1,
        },
        "yaxis2": {
            "title": {"text": "goodput (samples/s)"},
            "domain": middle,
            "anchor": "x",
            "type": "log",
            **log_ticks(_rates(tale)),
        },
        "yaxis3": {"title": {"text": "pause (ms)"}, "domain": bottom, "anchor": "x", "type": "log"},
        "shapes": [_line_at(x) for x, _ in blows],
        "annotations": [_note_at(x, escape(text)) for x, text in blows],
    }


def _line_at(x: float) -> dict[str, Any]:
    line = {"width": 1.5, "dash": "dash", "color": _GREY}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _note_at(x: float, text: str) -> dict[str, Any]:
    return {"x": x, "y": 0.59, "yref": "paper", "text": text, "showarrow": False, "xanchor": "left"}
