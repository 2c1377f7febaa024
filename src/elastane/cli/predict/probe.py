"""Implements ``elastane predict probe``: times a few layers here, for one factor per kind of operator."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from elastane.cli.predict import options
from elastane.cli.predict.outputs import progress
from elastane.errors import ElastaneError

HELP = "Time a few layers on this machine's card or processor, to correct what is predicted for it."


def command(
    layers: int = typer.Option(20, min=1, max=200, help="Layers to time."),
    device: str = typer.Option(
        None, help="local, or a device without multiprocessors of --device-file [default: this machine's card]."
    ),
    device_file: Path = options.DEVICE_FILE,
    profile: Path = options.PROFILE,
    as_json: bool = options.JSON,
) -> None:
    """Times layers and writes the correction factors where predictions find them."""
    from elastane.predict.devices import catalog, find, load_devices
    from elastane.predict.job import require_torch
    from elastane.predict.profile import default_path, probes_path

    require_torch()
    from elastane.predict.calibration.probing import this_card
    from elastane.predict.calibration.refit import probe_card, probe_local

    card = this_card()
    asked = device or (card.name if card else "local")
    if asked == "local":
        target = profile or default_path()
        with progress("probing") as advance:
            factors = probe_local(target, layers, advance)
    else:
        own = load_devices(device_file) if device_file else ()
        row = find(asked, (*own, *catalog()))
        if row.accelerator and (card is None or card.name != row.name):
            here = f"its card is {card.name}" if card else "it has no accelerator"
            raise ElastaneError(f"{row.name} cannot be probed on this machine: {here}")
        target = probes_path(row.name)
        with progress("probing") as advance:
            factors = probe_card(row, target, layers, advance)
    if as_json:
        typer.echo(
            json.dumps({"device": asked, "layers": layers, "factors": factors, "file": str(target)}, indent=2)
        )
        return
    typer.echo(f"{asked}, {layers} layers; times against what was predicted without probes:")
    for kind, factor in sorted(factors.items(), key=lambda item: -abs(item[1] - 1.0)):
        typer.echo(f"  {kind:<22} × {factor:.2f}")
    typer.echo(f"written to {target}; predictions for {asked} use it from now on")
