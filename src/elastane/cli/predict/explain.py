"""``elastane predict explain``: where the time of a step goes."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from elastane.cli.predict import options
from elastane.cli.predict.inputs import captured_step, machines_for
from elastane.cli.predict.outputs import show
from elastane.errors import ElastaneError

HELP = "Where the time of a step goes, by operator and by module."


def command(
    job: str = options.JOB,
    batch: int = options.BATCH,
    precision: str = options.PRECISION,
    device: str = options.DEVICE,
    device_file: Path = options.DEVICE_FILE,
    profile: Path = options.PROFILE,
    by: str = typer.Option("operator", help="operator or module."),
    as_json: bool = options.JSON,
) -> None:
    """Shares with their cumulative sum."""
    from elastane.predict.report import share_table, shares_json
    from elastane.predict.step import estimate_step

    if by not in ("operator", "module"):
        raise ElastaneError(f"--by must be operator or module, not {by!r}")
    machines, captured = machines_for(device, device_file, profile), captured_step(job, batch)
    for machine in machines:
        estimate = estimate_step(captured, machine, precision)
        shares = estimate.by_operator() if by == "operator" else estimate.by_module()
        if as_json:
            typer.echo(json.dumps(shares_json(estimate, shares), indent=2))
        else:
            show(share_table(estimate, shares, by), captured)
