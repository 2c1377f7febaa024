"""Writes results to where they were asked for: the terminal, a JSON file, an HTML page."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from elastane.sim.report import SweepPoint
    from elastane.sim.result import RunResult

STDOUT = "-"


def check_targets(json_path: str | None, html: Path | None, record_history: Path | None = None) -> None:
    """Refuse files that cannot be written before anyone has waited for a simulation."""
    file = Path(json_path) if json_path is not None and json_path != STDOUT else None
    if file is not None and html is not None and file.absolute() == html.absolute():
        raise ElastaneError(f"--json and --html cannot both be {html}")
    for option, path in (("--json", file), ("--html", html), ("--record-history", record_history)):
        if path is not None:
            _check_writing(option, path)


def check_report(out: Path | None) -> None:
    """Check the path of a report whose kind is told by its name."""
    if out is None:
        return
    if out.suffix not in (".html", ".json"):
        raise ElastaneError(f"--out needs a name that ends in .html or .json, not {str(out)!r}")
    _check_writing("--out", out)


def write_report(out: Path, text: str) -> None:
    """Write a report, and say where."""
    _with_parent(out).write_text(text, encoding="utf-8")
    typer.echo(f"report: {out}", err=True)


def report(
    results: Sequence[RunResult], json_path: str | None, html: Path | None, swept: str | None = None
) -> None:
    """Print the table; write JSON and HTML where asked."""
    from rich.console import Console

    from elastane.sim.report import comparison, sweep_points, write_html

    points = sweep_points(results, swept) if swept else ()
    first = [r for r in results if not swept or r.physics.get(swept) == results[0].physics.get(swept)]
    if json_path == STDOUT:
        typer.echo(_document(first, points))
    else:
        Console().print(comparison(first))
        if points:
            Console().print(_sweep_table([_figures(point) for point in points]))
        if json_path:
            _with_parent(Path(json_path)).write_text(_document(first, points) + "\n", encoding="utf-8")
            typer.echo(f"figures: {json_path}", err=True)
    if html:
        write_html(first, _with_parent(html), sweep=points)
        typer.echo(f"report: {html}", err=True)


def progress(counted: str, quiet: bool = False) -> Progress:
    """Bars on standard error that count jobs, runs or the like; nothing where nobody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(counted),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=quiet or not console.is_terminal)


def record_history(results: Sequence[RunResult], path: Path) -> None:
    """Save the history that the jobs of these runs leave to others."""
    from elastane.models.history import save_pool
    from elastane.sim.history import gathered

    count = save_pool(gathered(results), path)
    typer.echo(f"history: {path} ({count:,} jobs)", err=True)


def _check_writing(option: str, path: Path) -> None:
    try:
        _try_writing(path)
    except OSError as error:
        raise ElastaneError(f"{option} {path} cannot be written: {error.strerror}") from None


def _try_writing(path: Path) -> None:
    """Raise the ``OSError`` that writing would raise, and leave nothing behind."""
    if path.parent.is_dir() and (path.is_file() or not path.exists()):
        existed = path.exists()
        path.open("ab").close()  # asks the file system itself: permissions alone do not tell
        if not existed:
            path.unlink()
        return
    if path.exists():  # a directory, a device, a pipe; opening a pipe would wait for its reader
        _refuse_if(path.is_dir(), errno.EISDIR)
        _refuse_if(not os.access(path, os.W_OK), errno.EACCES)
        return
    above = next(folder for folder in path.absolute().parents if folder.exists())
    _refuse_if(not above.is_dir(), errno.ENOTDIR)
    _refuse_if(not os.access(above, os.W_OK | os.X_OK), errno.EACCES)


def _refuse_if(wrong: bool, number: int) -> None:
    if wrong:
        raise OSError(number, os.strerror(number))


def _with_parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _document(results: Sequence[RunResult], points: Sequence[SweepPoint]) -> str:
    from elastane.sim.report import to_json

    document = to_json(results)
    if points:
        document["sweep"] = [_figures(point) for point in points]
    return json.dumps(document, indent=1, allow_nan=False)


def _figures(point: SweepPoint) -> dict[str, object]:
    from elastane.sim.metrics import summarise

    summary = summarise(point.result)
    return {
        "parameter": point.parameter,
        "value": point.value,
        "policy": point.result.policy,
        "seed": point.result.seed,
        "mean_jct_s": summary.mean_jct_s,
        "p99_jct_s": summary.p99_jct_s,
        "makespan_s": summary.makespan_s,
    }


def _sweep_table(rows: Sequence[Mapping[str, object]]) -> Table:
    from rich.table import Table

    table = Table(title="Sweep")
    for heading in ("parameter", "value", "policy", "seed", "mean JCT (s)"):
        table.add_column(heading, justify="right")
    for row in rows:
        jct = row["mean_jct_s"]
        known = f"{jct:.0f}" if isinstance(jct, float) else "–"
        table.add_row(*(str(row[key]) for key in ("parameter", "value", "policy", "seed")), known)
    return table
