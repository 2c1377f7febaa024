"""``elastane policies``: what can be chosen, from which paper, and what each one reads."""

from __future__ import annotations

import json

import typer

HELP = "List scheduling policies with their paper, abilities and the information they use."


def command(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """List every policy, also those of other packages."""
    rows = _rows()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Policies", caption="Options are written --policy 'NAME(option=value,…)'.")
    for heading in ("name", "system", "paper", "decides", "resizes", "rebatches", "reads", "options"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row[key]) for key in row))
    Console().print(table)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "–"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "–"
    if isinstance(value, dict):
        return ", ".join(f"{name}={default}" for name, default in value.items()) or "–"
    return str(value)


def _rows() -> list[dict[str, object]]:
    from elastane.policies.registry import policy_class, policy_names
    from elastane.policies.view import Info

    rows: list[dict[str, object]] = []
    for name in policy_names():
        policy = policy_class(name)
        needs = policy.needs
        reads = [flag.name.lower() for flag in Info if flag in needs.info and flag.name]
        decides = "on events" if needs.period_s is None else f"every {needs.period_s:g} s"
        rows.append(
            {
                "name": name,
                "title": policy.title + (" (oracle)" if needs.oracle else ""),
                "paper": policy.paper,
                "decides": decides,
                "elastic": policy.elastic,
                "rebatch": needs.rebatch,
                "reads": reads,
                "options": policy().parameters(),
            }
        )
    return rows
