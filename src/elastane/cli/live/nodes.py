"""``elastane nodes`` and ``elastane drain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from elastane.cli.live import connection, options, pool, terminal, times

if TYPE_CHECKING:
    from elastane.service.messages import NodeInfo

NODES_HELP = "Show nodes, what they have and who is on them; --pools shows where they come from."
DRAIN_HELP = "Let a node run empty; --off lets it take work again."

_COLUMNS = (
    terminal.Column("id"),
    terminal.Column("state"),
    terminal.Column("used", right=True),
    terminal.Column("accelerators", 1),
    terminal.Column("cores", 4, right=True),
    terminal.Column("memory", 5, right=True),
    terminal.Column("address", 3),
    terminal.Column("pool", 2),
    terminal.Column("jobs"),
)
_UNSAID = "–"


def show(
    pools: bool = typer.Option(False, "--pools", help="Show the pools that nodes come from instead."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Prints the nodes with what they have and who is on them, or the pools."""
    client = connection.connect()
    if pools:
        pool.show(client.pools(), as_json)
        return
    nodes = client.nodes()
    if as_json:
        typer.echo(terminal.document(nodes))
    elif not nodes:
        terminal.say("no nodes; start some with: elastane up")
    else:
        now = times.now_s()
        _print([_row(node, now) for node in nodes])


def _print(rows: list[tuple[str, ...]]) -> None:
    """A table without the columns in which nobody has anything to say."""
    shown = [
        i for i, column in enumerate(_COLUMNS) if not column.rank or any(row[i] != _UNSAID for row in rows)
    ]
    terminal.print_table([_COLUMNS[i] for i in shown], [[row[i] for i in shown] for row in rows])


def _row(node: NodeInfo, now_s: float) -> tuple[str, ...]:
    return (
        node.id,
        _state(node, now_s),
        f"{node.used}/{node.slots}",
        _accelerators(node),
        _UNSAID if node.cores is None else str(node.cores),
        _UNSAID if node.memory_gb is None else f"{node.memory_gb:.0f} GB",
        node.address or _UNSAID,
        node.pool or _UNSAID,
        _jobs(node),
    )


def _state(node: NodeInfo, now_s: float) -> str:
    """A node's state with what belongs to it: since when, until when, or why."""
    if node.since_s is not None:
        return f"{node.state} {times.ago(node.since_s, now_s)}"
    if node.until_s is not None:
        return f"{node.state} {times.until(node.until_s, node.until_s, now_s)}"
    return f"{node.state}: {node.why}" if node.why else node.state


def _accelerators(node: NodeInfo) -> str:
    if not node.accelerators:
        return node.accelerator
    memory = f" {node.accelerator_memory_gb:g} GB" if node.accelerator_memory_gb else ""
    return f"{node.accelerators} × {node.accelerator}{memory}"


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
