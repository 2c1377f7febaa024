"""Renders the comparison as one HTML file that needs no network: styles, chart library, data and script inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from elastane.kit.html_page import Charts, Page, filled, render, resource
from elastane.sim.metrics import FAIRNESS_DEFINITION
from elastane.sim.report import embed
from elastane.sim.report.columns import COLUMNS, best, unit, written
from elastane.sim.report.compare import Row, notes, rows, varying_physics
from elastane.sim.report.sweep import SweepPoint, sweep_lines
from elastane.sim.report.table import settings
from elastane.sim.result import RunResult

_HERE = "elastane.sim.report"


def write_html(
    results: Iterable[RunResult],
    path: Path,
    *,
    sweep: Sequence[SweepPoint] = (),
    limits: embed.Limits | None = None,
) -> None:
    """Write the report of a comparison, with a section of sweep charts if ``sweep`` has points."""
    compared = rows(results)
    data, thinned = embed.page_data(compared, limits or embed.Limits())
    data["sweeps"] = embed.sweep_data(sweep_lines(sweep))
    sections = [_part("comparison.html", _comparison(compared, thinned))]
    if sweep:
        sections.append(_part("sweep.html", {}))
    facts = _facts([row.first for row in compared], len({run.seed for row in compared for run in row.runs}))
    _write(path, _title(row.first for row in compared), facts, sections, data)


def write_sweep_html(points: Sequence[SweepPoint], path: Path) -> None:
    """Write a page with sweep charts alone: mean JCT of each policy over each swept parameter."""
    runs = [point.result for point in points]
    oracle = {run.policy: run.oracle for run in runs}
    data: dict[str, object] = {
        "policies": embed.policy_styles(oracle.items()),
        "sweeps": embed.sweep_data(sweep_lines(points)),
    }
    _write(path, _title(runs), _facts(runs, len({run.seed for run in runs})), [_part("sweep.html", {})], data)


def _write(
    path: Path, title: str, facts: Mapping[str, str], sections: Sequence[str], data: Mapping[str, object]
) -> None:
    page = Page(
        title,
        "simulation report",
        facts,
        resource(_HERE, "page.css"),
        _part("page.html", {"sections": "\n".join(sections)}),
        charts=Charts(data, resource(_HERE, "page.js")),
    )
    path.write_text(render(page), encoding="utf-8")


def _part(name: str, values: Mapping[str, str]) -> str:
    return filled(resource(_HERE, name), values)


def _title(runs: Iterable[RunResult]) -> str:
    return " + ".join(dict.fromkeys(run.workload for run in runs))


def _facts(runs: Sequence[RunResult], seeds: int) -> dict[str, str]:
    sizes = sorted({run.total_gpus for run in runs})
    jobs = sorted({len(run.jobs) for run in runs})
    varying = varying_physics(runs)
    return {
        "cluster": f"{_range(sizes)} GPUs",
        "jobs": _range(jobs),
        "seeds": str(seeds),
        **{name: settings({name: value}).partition("=")[2] for name, value in runs[0].physics.items()},
        **dict.fromkeys(varying, "varies"),
    }


def _range(values: Sequence[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,}–{values[-1]:,}"


def _comparison(compared: Sequence[Row], thinned: Sequence[str]) -> dict[str, str]:
    several = any(len(row.runs) > 1 for row in compared)
    shown = "Distributions pool all seeds; the sections over time and over jobs show each policy's first seed."
    remarks = [*([shown] if several else []), *thinned]
    return {
        "head": "".join(_heading(compared)),
        "body": "".join(_table_row(i, row, compared) for i, row in enumerate(compared)),
        "legend": escape(_legend(compared)),
        "notes": "".join(f"<li>{escape(note)}</li>" for note in notes(compared)),
        "parameters": "".join(_parameters(row) for row in compared),
        "fairness": escape(FAIRNESS_DEFINITION),
        "remarks": escape(" ".join(remarks)),
    }


def _heading(compared: Sequence[Row]) -> Iterable[str]:
    for column in COLUMNS:
        symbol = escape(unit(column, compared).symbol)
        yield f'<th scope="col">{escape(column.title)}<small>{symbol}</small></th>'


def _table_row(index: int, row: Row, compared: Sequence[Row]) -> str:
    badge = '<span class="badge">oracle</span>' if row.first.oracle else ""
    name = f'<th scope="row"><i class="dot" data-policy="{index}"></i>{escape(row.policy)}{badge}</th>'
    cells = []
    for column in COLUMNS:
        leader = ' class="best"' if row.policy in best(column, compared) else ""
        star = "*" if column.of_finished and not row.complete else ""
        mean, spread = written(row.figures[column.name], unit(column, compared))
        under = f"<small>{escape(spread)}</small>" if spread else ""
        cells.append(f"<td{leader}>{escape(mean)}{star}{under}</td>")
    return f"<tr>{name}{''.join(cells)}</tr>"


def _legend(compared: Sequence[Row]) -> str:
    said = ["Bold: best of its column."]
    if len({row.first.oracle for row in compared}) > 1:
        said = ["Bold: best of its column among policies that do not read the truth; oracles are dashed below."]
    if any(len(row.runs) > 1 for row in compared):
        said.append("±: half the width of the 95 % interval of the mean over seeds.")
    if not all(row.complete for row in compared):
        said.append(
            "*: some jobs did not finish; such a policy is not ranked on what only finished jobs define."
        )
    return " ".join([*said, f"ρ = {FAIRNESS_DEFINITION}."])


def _parameters(row: Row) -> str:
    text = settings(row.first.parameters) or "no parameters"
    return f"<dt>{escape(row.policy)}</dt><dd>{escape(row.first.title)}<br><code>{escape(text)}</code></dd>"
