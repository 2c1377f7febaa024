"""``elastane demo``: the main job in one command, for people who have a minute."""

from __future__ import annotations

from pathlib import Path

import typer

HELP = "Compare four policies on a built-in workload of 160 jobs and write report.html."

_POLICIES = ("pollux", "optimus", "tiresias", "fifo")


def command(
    html: Path = typer.Option(Path("report.html"), help="Where to write the report."),
    workload: str = typer.Option("pollux:6", help="Workload to compare on."),
    no_cache: bool = typer.Option(False, help="Neither read nor write the cache of results."),
) -> None:
    """Simulate 160 training jobs on 16 × 4 GPUs under four schedulers."""
    from elastane.cli import sim
    from elastane.sim.spec import RunSpec

    typer.echo(
        f"160 training jobs (workload {workload}) on 16 nodes with 4 GPUs each, four schedulers:", err=True
    )
    results = sim.run([RunSpec(workload, name) for name in _POLICIES], 0, not no_cache)
    sim.report(results, None, html)
    typer.echo(f"Open {html} in a browser; try: elastane sim --help, elastane policies", err=True)
