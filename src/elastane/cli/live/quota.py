"""``elastane quota``: what tenants may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from elastane.cli.live import connection, options, terminal
from elastane.cli.live.exit_codes import Verb
from elastane.cli.live.groups import ListByDefault, group
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.service.messages import QuotaInfo

HELP = "Show or set how many slots tenants may hold, and whether they lend what they leave free."

app = group(ListByDefault, HELP)

_COLUMNS = (
    terminal.Column("tenant"),
    terminal.Column("used", right=True),
    terminal.Column("slots", right=True),
    terminal.Column("weight", right=True),
    terminal.Column("lends"),
)


@app.command("list", cls=Verb, help="Show quotas (the default).")
def list_quotas(as_json: bool = options.AS_JSON) -> None:
    """Prints the quotas of tenants with what they hold."""
    found = connection.connect().quotas()
    typer.echo(terminal.document(found)) if as_json else terminal.print_table(_COLUMNS, map(_row, found))


@app.command("set", cls=Verb, help="Change a tenant's quota; what is not said stays as it is.")
def set_quota(
    tenant: str = typer.Argument(metavar="TENANT"),
    slots: int = typer.Option(None, min=0, help="Most slots it may hold of its own right."),
    unlimited: bool = typer.Option(False, "--unlimited", help="No limit on slots."),
    weight: float = typer.Option(None, min=0, help="Share relative to other tenants."),
    lends: bool = typer.Option(None, "--lends/--keeps", help="Whether others may use what it leaves free."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Changes a tenant's quota and keeps what was not said."""
    if unlimited and slots is not None:
        raise ElastaneError("--slots and --unlimited contradict each other; keep one of them")
    if not unlimited and slots is None and weight is None and lends is None:
        raise ElastaneError("nothing to set; say --slots, --unlimited, --weight, --lends or --keeps")
    client = connection.connect()
    if slots is None and not unlimited:
        # To the server no number of slots means no limit, so the present one has to be said again.
        slots = next((each.slots for each in client.quotas() if each.tenant == tenant), None)
    quota = client.set_quota(tenant, slots, weight=weight, lends=lends)
    typer.echo(terminal.document(quota)) if as_json else terminal.print_table(_COLUMNS, [_row(quota)])


def _row(quota: QuotaInfo) -> tuple[object, ...]:
    slots = "no limit" if quota.slots is None else quota.slots
    return quota.tenant, quota.used, slots, f"{quota.weight:g}", "yes" if quota.lends else "no"
