"""Implements ``elastane predict devices``: lists the device catalog."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from elastane.cli.predict import options
from elastane.cli.predict.outputs import show

HELP = "The device catalog, with the origin and date of every figure."


def command(device_file: Path = options.DEVICE_FILE, as_json: bool = options.JSON) -> None:
    """Prints the device catalog as a table or as JSON."""
    from elastane.codec import encoded
    from elastane.predict.devices import catalog, load_devices
    from elastane.predict.report import device_table

    known = load_devices(device_file) if device_file else catalog()
    if as_json:
        typer.echo(json.dumps([encoded(each) for each in known], indent=2))
    else:
        show(device_table(known))
