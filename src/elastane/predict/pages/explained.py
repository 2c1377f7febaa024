"""Renders the breakdown of a step as a page: bars with the cumulative curve, predicted beside measured, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elastane.kit.durations import duration
from elastane.predict.explaining.shares import Share, Shares
from elastane.predict.explaining.tables import figures
from elastane.predict.operators import Phase
from elastane.predict.pages.frame import COLORS, chart, section, table, write_page
from elastane.predict.report import spread
from elastane.predict.steps import StepEstimate

MOST_BARS = 30


def write_explained(path: Path, title: str, estimate: StepEstimate, groupings: Sequence[Shares]) -> None:
    """Writes the page, one section per grouping."""
    facts = {
        "device": estimate.machine.device.name,
        "batch": str(estimate.capture.batch),
        "precision": estimate.precision,
        "step": spread(estimate.seconds),
        "rests on": estimate.machine.about,
        "not modelled": f"{groupings[0].unknown_s / groupings[0].seconds:.1%} of the time",
    }
    if groupings[0].measured_s is not None:
        facts["measured"] = duration(groupings[0].measured_s)
    sections = [_section(each) for each in groupings]
    write_page(path, title, facts, sections, {f"by-{each.by.value}": _figure(each) for each in groupings})


def _section(shares: Shares) -> str:
    count = shares.needed(0.9)
    remark = f"{count} of {len(shares.rows)} carry 90 % of the predicted time (dotted line)."
    headings = ["", "calls", "time", "share", "cumulative", "GFLOP/s", "GB/s", "of roofline"]
    headings += [phase.value for phase in Phase]
    ordered = shares.rows
    if shares.measured_s is not None:
        headings += ["measured", "off"]
        ordered = shares.worst_first()
        remark += " The table begins with the largest error."
    rows = [_cells(each, shares) for each in ordered]
    return section(f"By {shares.by.value}", remark, chart(f"by-{shares.by.value}"), table(headings, rows))


def _cells(share: Share, shares: Shares) -> list[str]:
    cells = [
        share.name,
        *figures(share),
        *(duration(share.phases[phase]) if share.phases[phase] else "–" for phase in Phase),
    ]
    if shares.measured_s is not None:
        cells += [duration(share.measured_s or 0.0), f"{1e3 * share.off_s:+.3g} ms"]
    return cells


def _figure(shares: Shares) -> dict[str, Any]:
    shown = shares.rows[:MOST_BARS]
    names = [each.name for each in shown]
    data: list[dict[str, Any]] = [
        _bars(phase.value, names, [1e3 * each.phases[phase] for each in shown], COLORS[place])
        for place, phase in enumerate(Phase)
    ]
    if shares.measured_s is not None:
        measured = [1e3 * (each.measured_s or 0.0) for each in shown]
        data.append(
            {"type": "scatter", "mode": "markers", "name": "measured", "x": names, "y": measured}
            | {"marker": {"color": "#1b2430", "symbol": "line-ew-open", "size": 16, "line": {"width": 3}}}
        )
    curve = {"type": "scatter", "mode": "lines+markers", "name": "cumulative", "x": names, "yaxis": "y2"}
    data.append(curve | {"y": [100 * each.cumulative for each in shown], "line": {"color": "#5b6673"}})
    return {"data": data, "layout": _layout()}


def _bars(name: str, x: list[str], y: list[float], color: str) -> dict[str, Any]:
    return {"type": "bar", "name": name, "x": x, "y": y, "marker": {"color": color}}


def _layout() -> dict[str, Any]:
    cut = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y2", "y0": 90, "y1": 90}
    return {
        "barmode": "stack",
        "height": 440,
        "margin": {"t": 10, "r": 60, "b": 130, "l": 60},
        "yaxis": {"title": {"text": "ms"}},
        "yaxis2": {"title": {"text": "cumulative, %"}, "overlaying": "y", "side": "right", "range": [0, 102]},
        "shapes": [cut | {"line": {"dash": "dot", "color": "#c0443a"}}],
    }
