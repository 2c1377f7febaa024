"""Arguments that several verbs take."""

from __future__ import annotations

import typer

from elastane.cli.live import complete

JOB = typer.Argument(
    metavar="JOB", help="Id of a job, as 'elastane queue' shows it.", autocompletion=complete.jobs
)
JOBS = typer.Argument(metavar="JOB…", help="Ids of jobs.", autocompletion=complete.jobs)
NODE = typer.Argument(metavar="NODE", help="Id of a node.", autocompletion=complete.nodes)
AS_JSON = typer.Option(False, "--json", help="Print one JSON document instead of text.")
