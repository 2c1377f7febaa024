"""Implements ``elastane predict step``: predicts the time of one training step on each device."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from elastane.cli.predict import options
from elastane.cli.predict.inputs import captured_step, machines_for
from elastane.cli.predict.outputs import show

HELP = "Predict one training step."


def command(
    job: str = options.JOB,
    batch: int = options.BATCH,
    script: str = options.SCRIPT,
    precision: str = options.PRECISION,
    device: str = options.DEVICE,
    device_file: Path = options.DEVICE_FILE,
    profile: Path = options.PROFILE,
    as_json: bool = options.JSON,
) -> None:
    """Prints the predicted time of one training step on each device."""
    from elastane.predict.report import capture_json, step_json, step_table
    from elastane.predict.steps import estimate_step

    machines, captured = machines_for(device, device_file, profile), captured_step(job, batch, script)
    estimates = [estimate_step(captured, each, precision) for each in machines]
    if as_json:
        document = {"capture": capture_json(captured), "steps": [step_json(each) for each in estimates]}
        typer.echo(json.dumps(document, indent=2))
        return
    show(step_table(estimates), captured)
