"""Implements ``elastane predict run``: predicts a whole run over devices and numbers of workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastane.cli.predict import numbers, options
from elastane.cli.predict.inputs import captured_step, machines_for, needed_job
from elastane.cli.predict.outputs import check_page, show
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.predict.prices import Offer
    from elastane.predict.runs import RunEstimate

HELP = "Predict a whole run: time, cost, memory, over devices and numbers of workers."


def command(
    job: str = options.JOB,
    samples: str = typer.Option(..., help="Training samples, as in 1.28M or 50k."),
    epochs: float = typer.Option(..., min=0.0, help="Epochs."),
    batch: int = options.BATCH,
    script: str = options.SCRIPT,
    precision: str = options.PRECISION,
    device: str = options.DEVICE,
    device_file: Path = options.DEVICE_FILE,
    profile: Path = options.PROFILE,
    val_samples: str = typer.Option("0", help="Validation samples."),
    val_every: str = typer.Option("1", help="Epochs between validations, as in 1 or 0.5epoch."),
    checkpoint: str = typer.Option(None, help="Time one checkpoint takes, as in 30s."),
    checkpoint_every: str = typer.Option("1", help="Epochs between checkpoints."),
    loader: str = typer.Option(None, help="Time to load one batch, as in 20ms."),
    measure_data: bool = typer.Option(False, "--measure-data", help="Measure it with the job's loader_fn."),
    gpus: str = typer.Option("1", help="Numbers of workers, as in 1,2,4,8."),
    per_node: int = typer.Option(8, min=1, help="Workers per node."),
    parallel: str = typer.Option("data", help="data, model or hybrid parallelism."),
    scheme: str = typer.Option("ring", help="Exchange: ring, tree, butterfly, one-to-all or mixing."),
    price_file: Path = typer.Option(None, help="Prices, CSV; there are no built-in ones."),
    budget: str = typer.Option(None, help="Show what keeps within it, as in '$200'."),
    deadline: str = typer.Option(None, help="Show what keeps within it, as in 24h."),
    sort: str = typer.Option("time", help="cost or time."),
    html: Path = typer.Option(None, help="Write a page with time and cost against GPUs."),
    as_json: bool = options.JSON,
) -> None:
    """Prints time, cost and memory of a run over devices and numbers of workers."""
    from elastane.jobs.units import DURATION
    from elastane.predict.collectives import AllReduce, Sharing
    from elastane.predict.parallelism import Parallel
    from elastane.predict.runs import RunPlan, estimate_run, sorted_runs
    from elastane.predict.steps import estimate_step

    numbers.one_of(sort, ("cost", "time"), "--sort")
    spread_by = Parallel(numbers.one_of(parallel, [each.value for each in Parallel], "--parallel"))
    exchange = AllReduce(numbers.one_of(scheme, [each.value for each in AllReduce], "--scheme"))
    limit_usd = numbers.dollars(budget) if budget else None
    limit_s = DURATION.read(deadline) if deadline else None
    offers = _offers(price_file, needed=limit_usd is not None or sort == "cost")
    plan = RunPlan(
        samples=numbers.count(samples, "--samples"),
        epochs=epochs,
        validation_samples=numbers.count(val_samples, "--val-samples"),
        validate_every=numbers.epochs(val_every, "--val-every"),
        loader_s=_loader_s(job, batch, loader, measure_data),
        checkpoint_s=DURATION.read(checkpoint) if checkpoint else 0.0,
        checkpoint_every=numbers.epochs(checkpoint_every, "--checkpoint-every"),
    )
    ways = [Sharing(count, per_node, exchange) for count in numbers.counts(gpus)]
    check_page(html)
    machines, captured = machines_for(device, device_file, profile), captured_step(job, batch, script)
    steps = [estimate_step(captured, each, precision) for each in machines]
    runs = [estimate_run(each, plan, way, offers, parallel=spread_by) for each in steps for way in ways]
    kept = sorted_runs([each for each in runs if each.within(limit_usd, limit_s)], by_cost=sort == "cost")
    _tell(job or script, runs, kept, html, as_json)


def _tell(job: str, runs: list[RunEstimate], kept: list[RunEstimate], html: Path | None, as_json: bool) -> None:
    from elastane.predict.report import capture_json, run_json, run_table

    captured = runs[0].step.capture
    notes = sorted({note for each in kept for note in each.notes})
    if as_json:
        document = {"capture": capture_json(captured), "runs": [run_json(each) for each in kept]}
        typer.echo(json.dumps(document, indent=2))
    elif not kept:
        typer.echo(_nothing(runs))
    else:
        show(run_table(kept), captured, notes)
    if html and kept:
        from elastane.predict.pages import write_runs

        write_runs(html, job, kept, notes)
        typer.echo(f"page: {html}", err=True)


def _offers(path: Path | None, needed: bool) -> tuple[Offer, ...]:
    from elastane.predict.prices import load_prices

    offers = load_prices(path) if path else ()
    if needed and not offers:
        raise ElastaneError(
            "costs need --price-file: a CSV with provider, device, gpus, usd_per_hour, source, as_of"
        )
    return offers


def _loader_s(job: str | None, batch: int, written: str | None, measure: bool) -> float | None:
    """Returns the seconds to load one batch: as the user says, else as measured, else None."""
    from elastane.jobs.units import DURATION
    from elastane.predict.job import load_factory
    from elastane.predict.loader_time import measure_loader

    if written:
        return DURATION.read(written)
    return measure_loader(load_factory(needed_job(job))(), batch) if measure else None


def _nothing(runs: list[RunEstimate]) -> str:
    from elastane.kit.durations import duration

    fastest = min(runs, key=lambda each: each.total_s.booking)
    where = f"{fastest.sharing.workers} × {fastest.step.machine.device.name}"
    return f"nothing keeps within that; the fastest is {where}, to be booked for {duration(fastest.total_s.booking)}"
