"""Renders a run over devices and numbers of workers as a page: time and cost against GPUs, and the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from elastane.kit.durations import duration
from elastane.predict.interval import Interval
from elastane.predict.pages.frame import COLORS, chart, section, table, write_page
from elastane.predict.report import run_cells
from elastane.predict.runs import RunEstimate

HOUR_S = 3600.0


def write_runs(path: Path, title: str, runs: Sequence[RunEstimate], notes: Sequence[str] = ()) -> None:
    """Writes the page of all runs, in the order given."""
    plan, batch = runs[0].plan, runs[0].step.capture.batch
    facts = {
        "samples": f"{plan.samples:,}",
        "epochs": f"{plan.epochs:g}",
        "batch per worker": str(batch),
        "precision": runs[0].step.precision,
        "fastest": duration(min(each.total_s.middle for each in runs)),
    }
    remark = "Bars reach from the 5 % to the 95 % quantile. " + " ".join(f"{each}." for each in notes)
    sections = [section("Time against GPUs", remark, chart("time"))]
    charts = {"time": _figure(runs, lambda run: run.total_s.scaled(1 / HOUR_S), "hours")}
    if any(run.cost_usd for run in runs):
        sections.append(section("Cost against GPUs", "Only where the price file has an offer.", chart("cost")))
        charts["cost"] = _figure(runs, lambda run: run.cost_usd, "US dollars")
    headings, rows = run_cells(runs)
    sections.append(section("All", "", table(headings, rows)))
    write_page(path, title, facts, sections, charts)


def _figure(
    runs: Sequence[RunEstimate], value: Callable[[RunEstimate], Interval | None], unit: str
) -> dict[str, Any]:
    devices: dict[str, list[tuple[int, Interval]]] = defaultdict(list)
    for run in runs:
        found = value(run)
        if found is not None:
            devices[run.step.machine.device.name].append((run.sharing.workers, found))
    lines = [
        _line(name, sorted(points, key=lambda each: each[0]), COLORS[place % len(COLORS)])
        for place, (name, points) in enumerate(devices.items())
    ]
    counts = sorted({run.sharing.workers for run in runs})
    x = {
        "type": "log",
        "title": {"text": "GPUs"},
        "tickvals": counts,
        "ticktext": [str(each) for each in counts],
    }
    return {"data": lines, "layout": {"xaxis": x, "yaxis": {"type": "log", "title": {"text": unit}}}}


def _line(name: str, points: Sequence[tuple[int, Interval]], color: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [count for count, _ in points],
        "y": [each.middle for _, each in points],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [each.high - each.middle for _, each in points],
            "arrayminus": [each.middle - each.low for _, each in points],
            "thickness": 1,
        },
        "line": {"color": color},
    }
