"""``elastane pool``: kinds of nodes of which there can be more or fewer, and how many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from elastane.cli.live import connection, options, terminal
from elastane.cli.live.exit_codes import Verb
from elastane.cli.live.groups import ListByDefault, group
from elastane.errors import ElastaneError
from elastane.kit.durations import duration

if TYPE_CHECKING:
    from elastane.service.messages import PoolInfo

HELP = "Show or bound pools of nodes, which grow for jobs that wait and shrink when nodes are idle."

app = group(ListByDefault, HELP)

_COLUMNS = (
    terminal.Column("pool"),
    terminal.Column("node"),
    terminal.Column("now", right=True),
    terminal.Column("wanted", right=True),
    terminal.Column("least", right=True),
    terminal.Column("most", right=True),
    terminal.Column("idle", 1, right=True),
    terminal.Column("price/h", 2, right=True),
    terminal.Column("budget/h", right=True),
)


@app.command("list", cls=Verb, help="Show pools (the default).")
def list_pools(as_json: bool = options.AS_JSON) -> None:
    """Prints the pools with their sizes and bounds."""
    show(connection.connect().pools(), as_json)


@app.command("set", cls=Verb, help="Change a pool's bounds; what is not said stays as it is.")
def set_pool(
    pool: str = typer.Argument(metavar="POOL"),
    least: int = typer.Option(None, min=0, help="Fewest nodes, also while nobody needs them."),
    most: int = typer.Option(None, min=0, help="Most nodes, however many jobs wait."),
    idle_s: float = typer.Option(None, min=0, help="Seconds that a node stays after its last worker has left."),
    budget: float = typer.Option(None, min=0, help="Most that all of its nodes may cost per hour."),
    no_budget: bool = typer.Option(False, "--no-budget", help="No limit on cost."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Changes a pool's bounds and keeps what was not said."""
    if no_budget and budget is not None:
        raise ElastaneError("--budget and --no-budget contradict each other; keep one of them")
    if not no_budget and all(each is None for each in (least, most, idle_s, budget)):
        raise ElastaneError("nothing to set; say --least, --most, --idle-s, --budget or --no-budget")
    asked = -1.0 if no_budget else budget
    client = connection.connect()
    info = client.set_pool(pool, least=least, most=most, idle_s=idle_s, budget_per_hour=asked)
    typer.echo(terminal.document(info)) if as_json else terminal.print_table(_COLUMNS, [_row(info)])


def show(pools: Sequence[PoolInfo], as_json: bool) -> None:
    """Print pools as a table, or as one JSON document."""
    if as_json:
        typer.echo(terminal.document(pools))
    elif not pools:
        terminal.say("no pools: the machines of this cluster are what they are")
    else:
        terminal.print_table(_COLUMNS, map(_row, pools))


def _row(pool: PoolInfo) -> tuple[object, ...]:
    return (
        pool.name,
        f"{pool.slots} × {pool.accelerator}",
        pool.now,
        pool.wanted,
        pool.least,
        pool.most,
        duration(pool.idle_s),
        f"{pool.price_per_hour:g}" if pool.price_per_hour else "–",
        "no limit" if pool.budget_per_hour is None else f"{pool.budget_per_hour:g}",
    )
