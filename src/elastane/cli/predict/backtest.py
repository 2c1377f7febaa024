"""Implements ``elastane predict backtest``: tests all cost models on measured timings they were not fitted to."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from elastane.cli.predict import options
from elastane.cli.predict.outputs import progress, show
from elastane.errors import ElastaneError

HELP = "Compare the four cost models on timing files: rows left out, and cards left out."


def command(
    dataset: Path = typer.Argument(help="A CSV file of timings (also .gz), or a folder of them."),
    cards: bool = typer.Option(True, help="Leave whole cards out as well, where there are several."),
    probes: int = typer.Option(20, min=1, help="Layers to probe on a card that was left out."),
    rows: int = typer.Option(None, min=50, help="Use so many rows of each set at most."),
    epochs: int = typer.Option(300, min=1, help="Epochs of the neural network; its authors train 300."),
    at_most: float = typer.Option(
        None, min=0.0, help="Fail if our median error on rows left out is above so many percent."
    ),
    device_file: Path = options.DEVICE_FILE,
    as_json: bool = options.JSON,
) -> None:
    """Prints the errors of all cost models on rows left out, and on cards left out."""
    from dataclasses import replace

    from elastane.predict.devices import catalog, load_devices
    from elastane.predict.job import require_torch
    from elastane.predict.timings import load_timings

    own = load_devices(device_file) if device_file else ()
    sets = load_timings(dataset, (*own, *catalog()))
    require_torch()
    from elastane.predict.backtesting.held_out import OURS, check_rows, held_out, models
    from elastane.predict.backtesting.tables import backtest_json, held_out_table, unseen_table
    from elastane.predict.backtesting.unseen import unseen

    if rows:
        sets = tuple(replace(each, timings=each.timings[:rows]) for each in sets)
    check_rows(sets, str(dataset))
    with progress("models") as advance:
        by_rows = list(held_out(sets, models(epochs), advance))
    with progress("cards") as advance:
        by_cards = list(unseen(sets, probes=probes, progress=advance)) if cards else []
    if as_json:
        typer.echo(json.dumps(backtest_json(by_rows, by_cards), indent=2))
    else:
        show(held_out_table(by_rows))
        if by_cards:
            show(unseen_table(by_cards))
    worst = max(each.of(OURS).median for each in by_rows)
    if at_most is not None and worst > at_most:
        raise ElastaneError(f"our median error is {worst:.1f} % on the worst set, above {at_most:g} %")
