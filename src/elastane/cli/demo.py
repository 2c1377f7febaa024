"""Implements ``elastane demo``: runs the live system for two minutes, or (``--sim``) compares schedulers.

With ``--cluster`` the live system has machines that are killed, cut off and added.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastane.cli import demo_cluster, demo_show
from elastane.cli.live import terminal, times
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.demo.tale import Tale

HELP = """Watch the live system: five real training jobs on a small cluster of their own, two of their parts killed.

Takes about two minutes, writes report.html, and leaves nothing else behind.  With --sim it compares four schedulers
on a workload in simulation instead; with --cluster (as root, on Linux) it runs three hosts in a box, kills one, pulls a
network cable and puts it back, and adds a host, while jobs train on all of them.
"""

_POLICIES = ("pollux", "optimus", "tiresias", "fifo")
_WORKLOAD = "pollux:6"
_NEEDED = {"torch": "PyTorch", "sklearn": "scikit-learn"}


def command(
    html: Path = typer.Option(Path("report.html"), help="Where to write the report."),
    as_json: bool = typer.Option(
        False, "--json", help="Print the results as JSON; the story goes to standard error."
    ),
    simulate: bool = typer.Option(False, "--sim", help="Compare four schedulers in simulation instead."),
    cluster: bool = typer.Option(
        False, "--cluster", help="Run on three hosts in a box that fail and come; needs root and iproute2."
    ),
    workload: str = typer.Option(
        None, help=f"With --sim: workload to compare on [default: {_WORKLOAD}, 160 jobs]."
    ),
    no_cache: bool = typer.Option(
        False, "--no-cache", help="With --sim: neither read nor write the cache of results."
    ),
) -> None:
    """Runs the live demo, or with --sim a comparison of schedulers."""
    from elastane.cli import output

    if cluster and simulate:
        raise ElastaneError("--cluster and --sim exclude each other: a simulation has no hosts")
    output.check_targets(None, html)
    if simulate:
        _simulate(html, workload or _WORKLOAD, as_json, no_cache)
        return
    for option, given in (("--workload", workload is not None), ("--no-cache", no_cache)):
        if given:
            raise ElastaneError(f"{option}: only the simulation has one; add --sim")
    missing = [name for module, name in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise ElastaneError(
            f"the demo trains real models and needs {' and '.join(missing)}: "
            "pip install 'elastane[torch]' scikit-learn; or compare schedulers without: elastane demo --sim"
        )
    if cluster:
        demo_cluster.run(as_json=as_json)
        return
    _live(html, as_json)


def _simulate(html: Path, workload: str, as_json: bool, no_cache: bool) -> None:
    """Compares four schedulers in simulation on 16 × 4 GPUs."""
    from elastane.cli import output, sim
    from elastane.sim.spec import RunSpec
    from elastane.sim.workloads import parse_workload

    count = len(parse_workload(workload).jobs)
    jobs = times.counted(count, "training job")
    typer.echo(f"{jobs} (workload {workload}) on 16 nodes with 4 GPUs each, four schedulers:", err=True)
    results = sim.run([RunSpec(workload, name) for name in _POLICIES], 0, not no_cache)
    output.report(results, output.STDOUT if as_json else None, html)
    typer.echo(f"Open {html} in a browser; try: elastane sim --help, elastane policies", err=True)


def _live(html: Path, as_json: bool) -> None:
    from elastane.demo.report import write_report

    with demo_show.interrupted_by_any_signal():
        tale = _perform(quiet=as_json)
    write_report(tale, html)
    if as_json:
        typer.echo(terminal.document(tale.summary.to_json()))
    else:
        _print_summary(tale)
    terminal.say(f"report: {html}")
    if not tale.summary.succeeded:
        raise typer.Exit(1)


def _perform(*, quiet: bool) -> Tale:
    """Runs the live demo in a temporary home, and cleans that up whatever happens meanwhile."""
    from elastane.demo.baseline import run_alone
    from elastane.demo.cast import CAST
    from elastane.demo.play import Play
    from elastane.demo.stage import Stage
    from elastane.demo.tale import collect
    from elastane.demo.wording import share

    def tell_score(name: str, accuracy: float | None) -> None:
        typer.echo(f"{name} alone: accuracy {share(accuracy)}", err=quiet)

    stage = Stage()
    try:
        typer.echo("starting a cluster of 2 nodes with 2 slots each ...", err=quiet)
        client = stage.open()
        for warning in client.info().warnings:
            typer.echo(f"note: {warning}", err=quiet)
        play = Play(stage, client, CAST)
        if terminal.is_terminal() and not quiet:
            demo_show.show_live(play)
        else:
            demo_show.show_plain(play, err=quiet)
        typer.echo(
            "the same scripts once more, each alone in one process, to compare accuracies ...", err=quiet
        )
        tale = collect(play, client, run_alone(stage, CAST, tell_score))
    finally:
        cleaned = stage.close()
    return tale.cleaned(cleaned)


def _print_summary(tale: Tale) -> None:
    from elastane.demo.wording import HEADINGS, cells, facts

    demo_show.print_table(HEADINGS, [cells(job) for job in tale.summary.jobs])
    demo_show.print_facts(facts(tale.summary))
