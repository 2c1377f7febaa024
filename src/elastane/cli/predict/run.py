"""``elastane predict run``: a whole run over devices and numbers of workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastane.cli.predict import options, read
from elastane.cli.predict.inputs import captured_step, machines_for
from elastane.cli.predict.outputs import show
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.predict.run import RunEstimate

HELP = "Predict a whole run: time, cost, memory, over devices and numbers of workers."


def command(
    job: str = options.JOB,
    samples: str = typer.Option(..., help="Training samples, as in 1.28M or 50k."),
    epochs: float = typer.Option(..., min=0.0, help="Epochs."),
    batch: int = options.BATCH,
    precision: str = options.PRECISION,
    device: str = options.DEVICE,
    device_file: Path = options.DEVICE_FILE,
    profile: Path = options.PROFILE,
    val_samples: str = typer.Option("0", help="Validation samples."),
    val_every: float = typer.Option(1.0, help="Epochs between validations."),
    loader: str = typer.Option(None, help="Measured time to load one batch, as in 20ms."),
    gpus: str = typer.Option("1", help="Numbers of workers, as in 1,2,4,8."),
    per_node: int = typer.Option(8, min=1, help="Workers per node."),
    price_file: Path = typer.Option(None, help="Prices, CSV; there are no built-in ones."),
    budget: str = typer.Option(None, help="Show what keeps within it, as in '$200'."),
    deadline: str = typer.Option(None, help="Show what keeps within it, as in 24h."),
    sort: str = typer.Option("time", help="cost or time."),
    as_json: bool = options.JSON,
) -> None:
    """A table over devices and numbers of workers."""
    from elastane.jobs.units import DURATION
    from elastane.predict.collectives import Sharing
    from elastane.predict.prices import load_prices
    from elastane.predict.report import capture_json, run_json, run_table
    from elastane.predict.run import RunPlan, estimate_run, sorted_runs
    from elastane.predict.step import estimate_step

    if sort not in ("cost", "time"):
        raise ElastaneError(f"--sort must be cost or time, not {sort!r}")
    limit_usd = read.dollars(budget) if budget else None
    limit_s = DURATION.read(deadline) if deadline else None
    offers = load_prices(price_file) if price_file else ()
    if (limit_usd is not None or sort == "cost") and not offers:
        raise ElastaneError(
            "costs need --price-file: a CSV with provider, device, gpus, usd_per_hour, source, as_of"
        )
    plan = RunPlan(
        samples=read.count(samples, "--samples"),
        epochs=epochs,
        validation_samples=read.count(val_samples, "--val-samples"),
        validate_every=val_every,
        loader_s=DURATION.read(loader) if loader else None,
    )
    counts = read.counts(gpus)
    machines, captured = machines_for(device, device_file, profile), captured_step(job, batch)
    steps = [estimate_step(captured, each, precision) for each in machines]
    runs = [estimate_run(each, plan, Sharing(count, per_node), offers) for each in steps for count in counts]
    kept = [each for each in runs if each.within(limit_usd, limit_s)]
    ordered = sorted_runs(kept, by_cost=sort == "cost")
    if as_json:
        document = {"capture": capture_json(captured), "runs": [run_json(each) for each in ordered]}
        typer.echo(json.dumps(document, indent=2))
        return
    if not ordered:
        typer.echo(_nothing(runs))
        return
    show(run_table(ordered), captured, sorted({note for each in ordered for note in each.notes}))


def _nothing(runs: list[RunEstimate]) -> str:
    from elastane.predict.report import duration

    fastest = min(runs, key=lambda each: each.total_s.booking)
    where = f"{fastest.sharing.workers} × {fastest.step.machine.device.name}"
    return f"nothing keeps within that; the fastest is {where}, to be booked for {duration(fastest.total_s.booking)}"
