"""``elastane demo``: the main job in one command, for people who have a minute."""

from __future__ import annotations

from pathlib import Path

import typer

HELP = "Compare four policies on a workload, by default a built-in one of 160 jobs, and write report.html."

_POLICIES = ("pollux", "optimus", "tiresias", "fifo")


def command(
    html: Path = typer.Option(Path("report.html"), help="Where to write the report."),
    workload: str = typer.Option("pollux:6", help="Workload to compare on."),
    json_path: str | None = typer.Option(
        None, "--json", help="Also write results as JSON; - for standard output."
    ),
    no_cache: bool = typer.Option(False, "--no-cache", help="Neither read nor write the cache of results."),
) -> None:
    """Compare four schedulers on 16 × 4 GPUs."""
    from elastane.cli import output, sim
    from elastane.sim.spec import RunSpec
    from elastane.sim.workloads import parse_workload

    output.check_targets(json_path, html)
    count = len(parse_workload(workload).jobs)
    jobs = f"{count} training job{'s' if count != 1 else ''}"
    typer.echo(f"{jobs} (workload {workload}) on 16 nodes with 4 GPUs each, four schedulers:", err=True)
    results = sim.run([RunSpec(workload, name) for name in _POLICIES], 0, not no_cache)
    output.report(results, json_path, html)
    typer.echo(f"Open {html} in a browser; try: elastane sim --help, elastane policies", err=True)
