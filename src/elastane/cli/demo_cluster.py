"""Implements ``elastane demo --cluster``: jobs on hosts in a box: one dies, one is cut off, one is added."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from elastane.cli import demo_show
from elastane.cli.live import terminal

if TYPE_CHECKING:
    from elastane.demo.cluster_summary import ClusterSummary


def run(*, as_json: bool) -> None:
    """Runs the demo and prints its summary; the exit code is 1 unless all went well, and 2 where it cannot run."""
    with demo_show.interrupted_by_any_signal():
        summary = _perform(quiet=as_json)
    if as_json:
        typer.echo(terminal.document(summary.to_json()))
    else:
        _print(summary)
    if not summary.succeeded:
        raise typer.Exit(1)


def _perform(*, quiet: bool) -> ClusterSummary:
    from elastane.demo.cluster_play import ClusterPlay
    from elastane.demo.cluster_stage import HOSTS, ClusterStage
    from elastane.demo.cluster_summary import summary_of

    stage = ClusterStage()
    try:
        typer.echo(f"starting a cluster of {HOSTS} hosts in a box ...", err=quiet)
        client = stage.open()
        play = ClusterPlay(stage, client)
        if terminal.is_terminal() and not quiet:
            demo_show.show_live(play)
        else:
            demo_show.show_plain(play, err=quiet)
        summary = summary_of(play, client)
    finally:
        cleaned = stage.close()
    return summary.cleaned(cleaned)


def _print(summary: ClusterSummary) -> None:
    from elastane.demo import cluster_summary, wording

    demo_show.print_table(wording.HEADINGS[:-1], [wording.cells(job)[:-1] for job in summary.jobs.jobs])
    demo_show.print_table(cluster_summary.HEADINGS, [cluster_summary.cells(deed) for deed in summary.deeds])
    demo_show.print_facts(cluster_summary.facts(summary))
