"""``elastane sim``: policies on a workload, side by side."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.sim.result import RunResult
    from elastane.sim.spec import RunSpec

HELP = """Simulate policies on a workload and compare them.

WORKLOAD is a trace file (Pollux/Sia, Philly, ITP, Helios, ACME, Gavel, Shockwave, Tiresias, Chronus formats, also .gz),
pollux:SEED for a generated workload of the kind Pollux's evaluation used, or synth:NAME,jobs=N,days=D.
"""


def command(
    workload: str = typer.Argument(..., help="A trace file, pollux:SEED, or synth:NAME,jobs=N,days=D."),
    policy: str = typer.Option("pollux,optimus,tiresias,fifo", help="Policies, separated by commas."),
    nodes: int = typer.Option(16, min=1, help="Number of nodes."),
    gpus_per_node: int = typer.Option(4, min=1, help="GPUs on each node."),
    gpu_type: str = typer.Option("t4", help="Accelerator of the built-in catalog."),
    cluster: str = typer.Option("", help="Mixed cluster instead, as in 6x4:t4,2x8:a100."),
    profiles: Path | None = typer.Option(None, help="Directory of measured profiles to replay as truth."),
    compat: str | None = typer.Option(None, help="Physics of a published simulator: osdi21."),
    interval: str = typer.Option("", help="Round length in seconds; several values make a sweep."),
    restart: float = typer.Option(30.0, help="Seconds a job pays for every start or move."),
    interference: str = typer.Option("0", help="Slow-down of distributed jobs sharing a node; may be a sweep."),
    load: str = typer.Option("1", help="Multiplies the number of jobs; several values make a sweep."),
    noise: float = typer.Option(0.0, min=0.0, help="Relative error of measurements jobs report."),
    rigid: float = typer.Option(0.0, help="Fraction of jobs that cannot change their size."),
    fixed_batch: float = typer.Option(0.0, help="Fraction of jobs that cannot change their batch."),
    failures: float = typer.Option(0.0, help="Node failures per 1000 node-days (published: 2 to 7)."),
    seed: str = typer.Option("0", help="Seed, or several separated by commas."),
    trace_format: str | None = typer.Option(None, "--format", help="Trace format, if it cannot be detected."),
    skip_bad: bool = typer.Option(False, help="Leave out bad rows and jobs that cannot run, and count them."),
    json_path: str | None = typer.Option(None, "--json", help="Write results as JSON; - for standard output."),
    html: Path | None = typer.Option(None, help="Write a self-contained HTML report."),
    jobs: int = typer.Option(0, "--jobs", min=0, help="Parallel processes; 0 uses all cores, 1 stays in one."),
    no_cache: bool = typer.Option(False, help="Neither read nor write the cache of results."),
) -> None:
    """Run policies × seeds × sweep values and report."""
    from elastane.lookahead.physics import Physics
    from elastane.policies.options import split_policies
    from elastane.policies.registry import make_policy
    from elastane.sim.spec import RunSpec, parse_cluster

    written = split_policies(policy)
    for name in written:
        make_policy(name)  # a misspelt name must not cost a simulation first
    if not written or len(set(written)) != len(written):
        raise ElastaneError(f"--policy needs one or more different policies, not {policy!r}")
    where = cluster or f"{nodes}x{gpus_per_node}:{gpu_type}"
    parse_cluster(where)
    rounds: list[float | None] = [*_numbers("interval", interval)] or [None]
    grid = list(itertools.product(_numbers("load", load), rounds, _numbers("interference", interference)))
    swept = _swept(grid)
    specs = [
        RunSpec(
            workload=workload,
            policy=name,
            cluster=where,
            profiles=str(profiles) if profiles else None,
            compat=compat,
            physics=Physics(
                restart_s=restart, interval_s=interval_s, interference=slowdown, observation_noise=noise
            ),
            seed=int(number),
            load=factor,
            rigid=rigid,
            fixed_batch=fixed_batch,
            failures_per_1000_node_days=failures,
            format=trace_format,
            skip_bad=skip_bad,
        )
        for factor, interval_s, slowdown in grid
        for name in written
        for number in _numbers("seed", seed)
    ]
    results = run(specs, jobs, not no_cache, quiet=json_path == "-")
    report(results, json_path, html, swept)


def _swept(grid: list[tuple[float, float | None, float]]) -> str | None:
    """The parameter that takes several values; at most one may."""
    names = ("load", "interval_s", "interference")
    varying = [name for i, name in enumerate(names) if len({point[i] for point in grid}) > 1]
    if len(varying) > 1:
        raise ElastaneError(f"only one of {', '.join(varying)} can take several values in one run")
    return varying[0] if varying else None


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ElastaneError(f"--{option} takes numbers separated by commas, not {text!r}") from None


def run(specs: list[RunSpec], processes: int, use_cache: bool, quiet: bool = False) -> list[RunResult]:
    """Run all with a progress bar on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from elastane.sim.batch import simulate_all

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("jobs"),
        TimeElapsedColumn(),
    )
    processes = processes or os.cpu_count() or 1
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=quiet, transient=not console.is_terminal) as bar:
        tasks = [bar.add_task(_title(spec, specs), total=None) for spec in specs]

        def show(index: int, done: int, total: int) -> None:
            bar.update(tasks[index], completed=done, total=total)

        return simulate_all(specs, processes, use_cache, show)


def _title(spec: RunSpec, specs: list[RunSpec]) -> str:
    """The policy and whatever else differs between the runs."""
    parts = [spec.policy]
    for label, value, everyone in (
        ("seed", spec.seed, {s.seed for s in specs}),
        ("load", spec.load, {s.load for s in specs}),
        ("interval", spec.physics.interval_s, {s.physics.interval_s for s in specs}),
        ("interference", spec.physics.interference, {s.physics.interference for s in specs}),
    ):
        if len(everyone) > 1:
            parts.append(f"{label} {value}")
    return " ".join(map(str, parts))


def report(
    results: list[RunResult], json_path: str | None, html: Path | None, swept: str | None = None
) -> None:
    """Table on the terminal, JSON and HTML where asked."""
    from rich.console import Console

    from elastane.sim.report import comparison, sweep_points, to_json, write_html

    points = sweep_points(results, swept) if swept else ()
    first = [r for r in results if not swept or r.physics[swept] == results[0].physics[swept]]
    document = to_json(first)
    if points:
        document["sweep"] = [
            {"parameter": p.parameter, "value": p.value, "policy": p.result.policy, "seed": p.result.seed}
            | _figures(p.result)
            for p in points
        ]
    if json_path == "-":
        typer.echo(json.dumps(document, indent=2))
    else:
        Console().print(comparison(first))
        if points:
            Console().print(_sweep_table(document["sweep"]))
        if json_path:
            _write(Path(json_path), json.dumps(document, indent=2) + "\n")
            typer.echo(f"figures: {json_path}", err=True)
    if html:
        html.parent.mkdir(parents=True, exist_ok=True)
        write_html(first, html, sweep=points)
        typer.echo(f"report: {html}", err=True)


def _figures(result: RunResult) -> dict[str, object]:
    from elastane.sim.metrics import summarise

    summary = summarise(result)
    return {"mean_jct_s": summary.mean_jct_s, "p99_jct_s": summary.p99_jct_s, "makespan_s": summary.makespan_s}


def _sweep_table(rows: object) -> object:
    from rich.table import Table

    table = Table(title="Sweep")
    for heading in ("parameter", "value", "policy", "seed", "mean JCT (s)"):
        table.add_column(heading, justify="right")
    for row in rows if isinstance(rows, list) else []:
        jct = row["mean_jct_s"]
        table.add_row(
            row["parameter"],
            f"{row['value']}",
            row["policy"],
            str(row["seed"]),
            "–" if jct is None else f"{jct:.0f}",
        )
    return table


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ElastaneError(f"cannot write {path}: {error.strerror}") from error
