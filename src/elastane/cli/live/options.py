"""Arguments that several verbs take."""

from __future__ import annotations

import typer

from elastane.cli.live import completion

JOB = typer.Argument(
    metavar="JOB", help="Id of a job, as 'elastane queue' shows it.", autocompletion=completion.jobs
)
JOBS = typer.Argument(metavar="JOB…", help="Ids of jobs.", autocompletion=completion.jobs)
NODE = typer.Argument(metavar="NODE", help="Id of a node.", autocompletion=completion.nodes)
AS_JSON = typer.Option(False, "--json", help="Print one JSON document instead of text.")
