"""Implements ``elastane predict explain``: breaks down the time of a step, predicted and measured."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from elastane.cli.predict import options
from elastane.cli.predict.inputs import captured_step, machines_for, needed_job
from elastane.cli.predict.outputs import check_page, show
from elastane.errors import ElastaneError

HELP = "Where the time of a step goes, by operator and by module."


def command(
    job: str = options.JOB,
    batch: int = options.BATCH,
    script: str = options.SCRIPT,
    precision: str = options.PRECISION,
    device: str = options.DEVICE,
    device_file: Path = options.DEVICE_FILE,
    profile: Path = options.PROFILE,
    by: str = typer.Option("operator", help="operator, kind, module or layer."),
    measured: bool = typer.Option(
        False, "--measured", help="Run a few real steps here and show them beside it."
    ),
    html: Path = typer.Option(None, help="Write a page with all groupings (one device)."),
    as_json: bool = options.JSON,
) -> None:
    """Prints the shares of a step's time with their cumulative sum."""
    from elastane.predict.explaining import By, shares_of
    from elastane.predict.explaining.tables import shares_json, shares_table
    from elastane.predict.job import load_factory
    from elastane.predict.steps import estimate_step

    if by not in {each.value for each in By}:
        raise ElastaneError(f"--by must be {', '.join(each.value for each in By)}, not {by!r}")
    machines = machines_for(device, device_file, profile)
    if html and len(machines) != 1:
        raise ElastaneError("--html shows one device; name it with --device")
    if measured and any(each.device.accelerator for each in machines):
        raise ElastaneError("--measured runs on this machine's processor; use it with --device local")
    check_page(html)
    captured, seen = captured_step(job, batch, script), None
    if measured:
        from elastane.predict.explaining.measuring import measured_step

        seen = measured_step(load_factory(needed_job(job)), batch)
    for machine in machines:
        estimate = estimate_step(captured, machine, precision)
        shares = shares_of(estimate, By(by), seen)
        if as_json:
            typer.echo(json.dumps(shares_json(estimate, shares), indent=2))
        else:
            show(shares_table(estimate, shares), captured)
        if html:
            from elastane.predict.pages import write_explained

            write_explained(html, job or script, estimate, [shares_of(estimate, each, seen) for each in By])
            typer.echo(f"page: {html}", err=True)
