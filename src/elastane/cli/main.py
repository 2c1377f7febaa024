"""The ``elastane`` command: assembles the verbs and turns mistakes into one clear line."""

from __future__ import annotations

import sys

import typer

from elastane import __version__
from elastane.cli import demo, policies, sim
from elastane.errors import ElastaneError

app = typer.Typer(
    name="elastane",
    help="Stretch every training job to the GPUs that do the most good right now.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("sim", help=sim.HELP)(sim.command)
app.command("policies", help=policies.HELP)(policies.command)
app.command("demo", help=demo.HELP)(demo.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"elastane {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Options of every verb."""


def main() -> None:
    """Run the command line; exit 2 for a user's mistake, 130 when interrupted."""
    try:
        app()
    except ElastaneError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing was left behind", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
