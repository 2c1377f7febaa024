"""``elastane doctor``: what this machine has, what Elastane will do with it, and what mends what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from elastane.cli.doctor.findings import Finding

HELP = "Look at this machine: what it has, how jobs will run on it, and the line that mends what is missing."


def command(
    home: Path = typer.Option(None, help="Where everything is kept [default: $ELASTANE_HOME or ~/.elastane]."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of text."),
) -> None:
    """Tell what was found; exit 1 if something does not work like this."""
    from elastane.cli.doctor.findings import State
    from elastane.service.home import default_home

    findings = examine(home or default_home())
    well = all(finding.state is not State.WRONG for finding in findings)
    if as_json:
        typer.echo(json.dumps({"ok": well, "findings": [each.to_json() for each in findings]}, indent=2))
    else:
        for line in lines(findings):
            typer.echo(line)
    raise typer.Exit(0 if well else 1)


def examine(home: Path) -> list[Finding]:
    """Everything that is looked at; no device is initialised."""
    from elastane.accelerators import discover
    from elastane.accelerators.nvml import Nvml
    from elastane.accelerators.probe import torch_builds
    from elastane.cli.doctor import devices, surroundings

    found = discover()
    with Nvml.opened() as nvml:
        driver = nvml.driver() if nvml is not None else ""
    return [
        surroundings.python(),
        *devices.pytorch(torch_builds(), found, driver),
        *devices.accelerators(found),
        *devices.communicator(found),
        devices.gradients(found),
        surroundings.containment(),
        surroundings.shared_memory(),
        surroundings.ports(),
        surroundings.host_name(),
        surroundings.clock(),
        surroundings.disk(home),
    ]


def lines(findings: list[Finding]) -> list[str]:
    """One line each, with the remedy below."""
    width = max(len(finding.topic) for finding in findings)
    told = []
    for finding in findings:
        told.append(f"{finding.state.value:<5}  {finding.topic:<{width}}  {finding.told}")
        if finding.remedy:
            told.append(f"{'':<5}  {'':<{width}}  → {finding.remedy}")
    return told
