"""``elastane policies``: what can be chosen, from which paper, and what each one reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.text import Text

HELP = "List scheduling policies with their paper, abilities and the information they use."


def command(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of text."),
) -> None:
    """List every policy, also those of other packages."""
    rows = _rows()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    # One block per policy: eight columns would break words on most terminals.
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for row in rows:
        table.add_row(str(row["name"]), _block(row))
    console = Console()
    console.print(table)
    console.print("Options are written --policy 'NAME(option=value,…)'.", style="dim")


def _block(row: Mapping[str, Any]) -> Text:
    """Describe one policy: what it is, does, reads and can be told."""
    from rich.text import Text

    does = [f"decides {row['decides']}"]
    does += ["resizes jobs"] * row["elastic"] + ["changes batch sizes"] * row["rebatch"]
    lines = [
        ", ".join(filter(None, (row["title"], row["paper"]))),
        ", ".join(does),
        f"reads: {', '.join(row['reads']) or 'nothing about jobs'}",
        f"options: {', '.join(f'{name}={default}' for name, default in row['options'].items()) or 'none'}",
    ]
    return Text("\n".join(lines) + "\n")


def _rows() -> list[dict[str, Any]]:
    from elastane.policies.registry import policy_class, policy_names
    from elastane.policies.view import Info

    rows: list[dict[str, Any]] = []
    for name in policy_names():
        policy = policy_class(name)
        needs = policy.needs
        reads = [flag.name.lower() for flag in Info if flag in needs.info and flag.name]
        decides = "on events" if needs.period_s is None else f"every {needs.period_s:g} s"
        rows.append(
            {
                "name": name,
                "title": policy.title
                + (" (oracle)" if needs.oracle and "(oracle)" not in policy.title else ""),
                "paper": policy.paper,
                "decides": decides,
                "elastic": policy.elastic,
                "rebatch": needs.rebatch,
                "reads": reads,
                "options": policy().parameters(),
            }
        )
    return rows
