"""Defines the ``elastane`` command: assembles the verbs and turns a user's mistakes into one clear line."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from elastane import __version__
from elastane.cli import (
    bench,
    bench_gpu,
    demo,
    doctor,
    live,
    node,
    policies,
    predict,
    replay,
    sim,
    train,
    up_down,
)
from elastane.cli.live import terminal
from elastane.cli.plain_help import make_plain
from elastane.errors import ElastaneError


class _Verbs(TyperGroup):
    """The group of all verbs; on an interrupt it prints a line, where Typer would only set the exit code."""

    def make_context(self, *words: Any, **settings: Any) -> Any:
        """Makes the context, and the help of all verbs plain from here on."""
        make_plain(self.context_class)
        return super().make_context(*words, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb; an interrupt ends with one line and exit code 130."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("interrupted; nothing was left behind", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="elastane",
    cls=_Verbs,
    help="Stretch every training job to the GPUs that do the most good right now.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("sim", help=sim.HELP)(sim.command)
app.command("policies", help=policies.HELP)(policies.command)
app.command("demo", help=demo.HELP)(demo.command)
app.add_typer(bench.app, name="bench")
app.command("bench-gpu", help=bench_gpu.HELP)(bench_gpu.command)
app.add_typer(train.app, name="train")
app.add_typer(predict.app, name="predict")
app.command("doctor", help=doctor.HELP)(doctor.command)
app.command("up", help=up_down.UP_HELP)(up_down.up)
app.command("down", help=up_down.DOWN_HELP)(up_down.down)
app.command("node", help=node.HELP)(node.command)
live.register(app)
app.command("replay", help=replay.HELP)(replay.command)


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
    """Handles the options that stand before any verb."""


def main() -> None:
    """Runs the command line; exits with 2 for a user's mistake, 1 where the machine fails, 130 when interrupted."""
    try:
        app()
    except ElastaneError as error:
        terminal.say(f"error: {error}")
        sys.exit(2)
    except OSError as error:
        _forget_output()
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(1)


def _forget_output() -> None:
    """Redirects standard output to nowhere: at exit Python would complain again about what it could not write."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
