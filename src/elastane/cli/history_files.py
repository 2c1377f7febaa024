"""``elastane history build``, ``show`` and ``export``: files of past jobs, for simulations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.models.history import Experience

BUILD_HELP = """Gather what past jobs teach into one file, for elastane sim --history.

RESULT is what elastane sim --json wrote, or another history.
"""
SHOW_HELP = "Show what a history knows, by kind of job."
EXPORT_HELP = "Write what the jobs of the live system teach, for elastane sim --history."


def build(
    results: list[Path] = typer.Argument(
        ..., metavar="RESULT…", help="Results or histories, the oldest first."
    ),
    out: Path = typer.Option(..., "--out", "-o", help="The file to write."),
    share: bool = typer.Option(False, "--share", help="Let every tenant learn from these jobs."),
    as_json: bool = typer.Option(False, "--json", help="Say what was written as JSON."),
) -> None:
    """Gathers results and histories into one history file."""
    from dataclasses import replace

    from elastane.sim.history import gathered_from_files

    pool = gathered_from_files(results)
    past = [replace(each, shared=True) for each in pool] if share else list(pool)
    if not past:
        raise ElastaneError("no job of these files can teach anything")
    _write(past, out, as_json)


def export(
    out: Path = typer.Option(..., "--out", "-o", help="The file to write."),
    home: Path = typer.Option(None, help="Home of the live system [default: $ELASTANE_HOME or ~/.elastane]."),
    as_json: bool = typer.Option(False, "--json", help="Say what was written as JSON."),
) -> None:
    """Write the pool of a live system, whether it runs or not."""
    from elastane.service.history import JobHistory
    from elastane.service.home import open_store

    store = open_store(home)
    try:
        past = JobHistory(store)
        while not past.complete:
            past.read_some()
    finally:
        store.close()
    if not len(past.pool):
        raise ElastaneError("no job of this system has taught anything yet")
    _write(past.pool, out, as_json)


def _write(past: Iterable[Experience], out: Path, as_json: bool) -> None:
    from elastane.models.history import save_pool

    try:
        count = save_pool(past, out)
    except OSError as error:
        raise ElastaneError(f"{out} cannot be written: {error.strerror}") from None
    if as_json:
        typer.echo(json.dumps({"file": str(out), "jobs": count}))
    else:
        typer.echo(f"history: {out} ({count:,} jobs)", err=True)


def show(
    path: Path = typer.Argument(..., metavar="FILE", help="A history."),
    as_json: bool = typer.Option(False, "--json", help="As JSON, for programs."),
) -> None:
    """Prints what a history knows, one row per kind of job."""
    from rich.console import Console
    from rich.table import Table

    from elastane.models.history import load_pool

    rows = summary(load_pool(path))
    if as_json:
        typer.echo(json.dumps(rows, indent=1, allow_nan=False))
        return
    table = Table(title=f"History {path}")
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in ("kind", "accelerators") else "right")
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    Console().print(table)


_HEADINGS = (
    "kind",
    "jobs",
    "finished",
    "tenants",
    "accelerators",
    "configurations",
    "most workers",
    "total work",
)


def summary(pool: Iterable[Experience]) -> list[dict[str, object]]:
    """One row per kind of job (application or script), the most frequent first."""
    kinds: dict[str, list[Experience]] = {}
    for past in pool:
        kinds.setdefault(past.signature.app or past.signature.keys[0][1], []).append(past)
    ordered = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))
    return [_row(name, jobs) for name, jobs in ordered]


def _row(name: str, jobs: list[Experience]) -> dict[str, object]:
    totals = sorted(past.total_work for past in jobs if past.total_work is not None)
    configurations = {(kind, *row[:3]) for past in jobs for kind, rows in past.timings.items() for row in rows}
    return {
        "kind": name,
        "jobs": len(jobs),
        "finished": len(totals),
        "tenants": len({past.tenant for past in jobs}),
        "accelerators": sorted({kind for past in jobs for kind in past.timings}),
        "configurations": len(configurations),
        "most_workers": max(past.most_workers for past in jobs),
        "median_total_work": totals[len(totals) // 2] if totals else None,
    }


def _text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return ", ".join(value) or "–"
    return f"{value:,.3g}" if isinstance(value, float) else str(value)
