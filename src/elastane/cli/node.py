"""``elastane node``: has this machine join a cluster, or prints how others join it."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from elastane.errors import ElastaneError

HELP = (
    "Join a cluster with this machine: JOIN is what 'elastane node secret' prints on the head. Ctrl-C ends all that "
    "runs here, and leaves."
)
_SECRET = "secret"  # noqa: S105 (a word of the command line)


def command(
    join: str = typer.Argument(
        None, metavar="JOIN|secret", help="The join string in quotes; or 'secret', on the head, to print it."
    ),
    join_file: Path = typer.Option(
        None, help="Read JOIN from this file, which only you may read, so that no list of processes shows it."
    ),
    name: str = typer.Option(None, help="Name of this node [default: that of the host]."),
    address: str = typer.Option(
        "", help="Address at which other nodes reach this one [default: that of its way to the head]."
    ),
    scratch: Path = typer.Option(
        None, help="Folder for logs and files of jobs [default: ~/.cache/elastane/nodes/NAME]."
    ),
    orphan_s: float = typer.Option(
        900.0, min=0.0, help="Seconds without the head after which jobs here are ended; 0 is never."
    ),
    once: bool = typer.Option(
        False, "--once", help="End when the head is shut down; else wait for the next one."
    ),
    idle_s: float = typer.Option(
        0.0, min=0.0, help="End when nothing has run here for so many seconds; 0 is never."
    ),
    notice_s: float = typer.Option(
        30.0, min=1.0, help="How long this machine stays after SIGUSR1, which says that it will be taken away."
    ),
    own_disk: bool = typer.Option(
        False,
        "--own-disk",
        help="Use --scratch for jobs' folders also where this machine sees those of the head.",
    ),
    pool: str = typer.Option("", hidden=True, help="The pool that this machine was got for."),
    home: Path = typer.Option(
        None, help="With 'secret': home of the system [default: $ELASTANE_HOME or ~/.elastane]."
    ),
) -> None:
    """Joins a cluster, or prints how others join it."""
    if join == _SECRET:
        from elastane.engines.nodes.joined_nodes import join_string
        from elastane.service.home import default_home

        typer.echo(f"elastane node '{join_string((home or default_home()).absolute())}'")
        return
    from elastane.engines.nodes.joining import Join, read_join
    from elastane.engines.nodes.node_main import NodeOptions, default_scratch, own_name, run

    if (join is None) == (join_file is None):
        raise ElastaneError("elastane node: say how to join, by JOIN or by --join-file FILE, and not by both")
    where, own = Join.parse(join) if join is not None else read_join(join_file), name or own_name()
    place = (scratch or default_scratch(own)).absolute()

    def say(words: str) -> None:
        typer.echo(f"node {own}: {words}")
        sys.stdout.flush()

    run(NodeOptions(where, own, place, address, orphan_s, once, pool, own_disk, idle_s, notice_s), say)
    typer.echo(f"node {own} has left; nothing of it runs any more")
