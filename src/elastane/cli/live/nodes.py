"""``elastane nodes`` and ``elastane drain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from elastane.cli.live import connection, options, terminal, times

if TYPE_CHECKING:
    from elastane.service.messages import NodeInfo

NODES_HELP = "Show nodes, their slots and who is on them."
DRAIN_HELP = "Let a node run empty; --off lets it take work again."

_COLUMNS = (
    terminal.Column("id"),
    terminal.Column("state"),
    terminal.Column("used", right=True),
    terminal.Column("accelerator", 1),
    terminal.Column("jobs"),
)


def show(as_json: bool = options.AS_JSON) -> None:
    """Prints the nodes with their slots and jobs."""
    nodes = connection.connect().nodes()
    if as_json:
        typer.echo(terminal.document(nodes))
    elif not nodes:
        terminal.say("no nodes; start some with: elastane up")
    else:
        terminal.print_table(
            _COLUMNS,
            [
                (node.id, node.state, f"{node.used}/{node.slots}", node.accelerator, _jobs(node))
                for node in nodes
            ],
        )


def drain(
    node: str = options.NODE,
    off: bool = typer.Option(False, "--off", help="Let it take work again."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Drains a node, or lets it take work again."""
    client = connection.connect()
    answer = client.undrain(node) if off else client.drain(node)
    if as_json:
        typer.echo(terminal.document(answer))
        return
    left = (
        "" if off or not answer.jobs else f", {times.counted(len(answer.jobs), 'job')} to move: {_jobs(answer)}"
    )
    typer.echo(terminal.clean(f"{answer.id} {answer.state}{left}"))


def _jobs(node: NodeInfo) -> str:
    return " ".join(f"{job}:{count}" for job, count in sorted(node.jobs.items())) or "–"
