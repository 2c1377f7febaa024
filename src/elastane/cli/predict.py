"""``elastane predict``: how long, how much, on what; before a run starts and while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.predict.calibration.calibrate import Progress
    from elastane.predict.eta.watch import LogWatch
    from elastane.predict.operators import StepCapture
    from elastane.predict.run import RunEstimate
    from elastane.predict.step import Machine

HELP = "Time and cost of a training before it starts, and the time left while it runs."
app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)

_JOB = typer.Argument(metavar="MODULE:FUNCTION", help="A function that returns a TrainingJob.")
_BATCH = typer.Option(32, "-b", "--batch", min=1, help="Samples per step of one worker.")
_PRECISION = typer.Option("fp32", help="fp32, tf32, bf16, fp16 or fp8.")
_DEVICE = typer.Option(
    "local", help="local (after calibrate), names of the catalog with commas between, or all."
)
_DEVICE_FILE = typer.Option(None, help="Devices of your own, JSON or CSV.")
_PROFILE = typer.Option(None, help="Profile of this machine [default: in the user's cache].")
_JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command("step", help="Predict one training step.")
def step(
    job: str = _JOB,
    batch: int = _BATCH,
    precision: str = _PRECISION,
    device: str = _DEVICE,
    device_file: Path = _DEVICE_FILE,
    profile: Path = _PROFILE,
    as_json: bool = _JSON,
) -> None:
    """Time of a step on each device."""
    from elastane.predict.report import capture_json, step_json, step_table
    from elastane.predict.step import estimate_step

    machines, captured = _machines(device, device_file, profile), _capture(job, batch)
    estimates = [estimate_step(captured, each, precision) for each in machines]
    if as_json:
        document = {"capture": capture_json(captured), "steps": [step_json(each) for each in estimates]}
        typer.echo(json.dumps(document, indent=2))
        return
    _print(step_table(estimates), captured)


@app.command("run", help="Predict a whole run: time, cost, memory, over devices and numbers of workers.")
def run(
    job: str = _JOB,
    samples: str = typer.Option(..., help="Training samples, as in 1.28M or 50k."),
    epochs: float = typer.Option(..., min=0.0, help="Epochs."),
    batch: int = _BATCH,
    precision: str = _PRECISION,
    device: str = _DEVICE,
    device_file: Path = _DEVICE_FILE,
    profile: Path = _PROFILE,
    val_samples: str = typer.Option("0", help="Validation samples."),
    val_every: float = typer.Option(1.0, help="Epochs between validations."),
    loader: str = typer.Option(None, help="Measured time to load one batch, as in 20ms."),
    gpus: str = typer.Option("1", help="Numbers of workers, as in 1,2,4,8."),
    per_node: int = typer.Option(8, min=1, help="Workers per node."),
    price_file: Path = typer.Option(None, help="Prices, CSV; there are no built-in ones."),
    budget: str = typer.Option(None, help="Show what keeps within it, as in '$200'."),
    deadline: str = typer.Option(None, help="Show what keeps within it, as in 24h."),
    sort: str = typer.Option("time", help="cost or time."),
    as_json: bool = _JSON,
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
    limit_usd = _dollars(budget) if budget else None
    limit_s = DURATION.read(deadline) if deadline else None
    offers = load_prices(price_file) if price_file else ()
    if (limit_usd is not None or sort == "cost") and not offers:
        raise ElastaneError(
            "costs need --price-file: a CSV with provider, device, gpus, usd_per_hour, source, as_of"
        )
    plan = RunPlan(
        samples=_count(samples, "--samples"),
        epochs=epochs,
        validation_samples=_count(val_samples, "--val-samples"),
        validate_every=val_every,
        loader_s=DURATION.read(loader) if loader else None,
    )
    counts = _counts(gpus)
    machines, captured = _machines(device, device_file, profile), _capture(job, batch)
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
    _print(run_table(ordered), captured, sorted({note for each in ordered for note in each.notes}))


@app.command("calibrate", help="Measure this machine, so that predictions for it are worth something.")
def calibrate_here(
    seconds: float = typer.Option(100.0, min=5.0, help="About how long to measure."),
    profile: Path = _PROFILE,
    as_json: bool = _JSON,
) -> None:
    """Write a profile."""
    from elastane.predict.job import require_torch
    from elastane.predict.profile import default_path

    require_torch()
    from elastane.predict.calibration.calibrate import calibrate

    target = profile or default_path()
    with _progress("measuring") as told:
        found = calibrate(seconds, progress=told)
    found.save(target)
    about = {
        "profile": str(target),
        "operators": len(found.measured),
        "networks": len(found.steps),
        "gflops": found.device.peak_tflops["fp32"] * 1e3,
        "gb_per_s": found.device.bandwidth_gb_per_s,
        "threads": found.threads,
    }
    typer.echo(json.dumps(about, indent=2) if as_json else _sentence(about))


@app.command("explain", help="Where the time of a step goes, by operator and by module.")
def explain(
    job: str = _JOB,
    batch: int = _BATCH,
    precision: str = _PRECISION,
    device: str = _DEVICE,
    device_file: Path = _DEVICE_FILE,
    profile: Path = _PROFILE,
    by: str = typer.Option("operator", help="operator or module."),
    as_json: bool = _JSON,
) -> None:
    """Shares with their cumulative sum."""
    from elastane.predict.report import share_table, shares_json
    from elastane.predict.step import estimate_step

    if by not in ("operator", "module"):
        raise ElastaneError(f"--by must be operator or module, not {by!r}")
    machines, captured = _machines(device, device_file, profile), _capture(job, batch)
    for machine in machines:
        estimate = estimate_step(captured, machine, precision)
        shares = estimate.by_operator() if by == "operator" else estimate.by_module()
        if as_json:
            typer.echo(json.dumps(shares_json(estimate, shares), indent=2))
        else:
            _print(share_table(estimate, shares, by), captured)


@app.command("eta", help="Time left of a running training, from its log.")
def eta(
    log: Path = typer.Argument(
        metavar="RUN|LOG", help="Folder of a run, or a log: JSON lines, Lightning CSV, HF."
    ),
    total_steps: int = typer.Option(None, min=1, help="Steps of the whole training, if the log does not say."),
    epochs: float = typer.Option(None, min=0.0, help="Epochs of the whole training, if the log does not say."),
    follow: bool = typer.Option(False, "--follow", help="Go on as the log grows."),
    every: float = typer.Option(1.0, min=0.05, help="Seconds between looks, with --follow."),
    as_json: bool = _JSON,
) -> None:
    """Read a log once, or follow it."""
    from elastane.predict.eta.logs import follow as followed
    from elastane.predict.eta.logs import records
    from elastane.predict.eta.watch import LogWatch

    watch = LogWatch(total_steps, epochs)
    if not follow:
        for record in records(log):
            watch.observe(record)
        typer.echo(_eta_line(watch, as_json))
        return

    def wait() -> bool:
        time.sleep(every)
        return True

    said = ""
    for found in followed(log, wait, time.time):
        if found is not None:
            watch.observe(found)
            continue
        line = _eta_line(watch, as_json)
        if line != said:
            typer.echo(line)
            said = line
        if watch.ended:
            return


@app.command("devices", help="The device catalog, with the origin and date of every figure.")
def devices(device_file: Path = _DEVICE_FILE, as_json: bool = _JSON) -> None:
    """List devices."""
    from elastane.codec import encoded
    from elastane.predict.devices import catalog, load_devices
    from elastane.predict.report import device_table

    known = load_devices(device_file) if device_file else catalog()
    if as_json:
        typer.echo(json.dumps([encoded(each) for each in known], indent=2))
    else:
        _print(device_table(known))


def _eta_line(watch: LogWatch, as_json: bool) -> str:
    from elastane.predict.interval import Unknown
    from elastane.predict.report import duration, interval_json

    left = watch.remaining()
    if as_json:
        known = {"unknown": left.reason} if isinstance(left, Unknown) else {"remaining_s": interval_json(left)}
        return json.dumps({"step": watch.step, "done": watch.done, **known})
    done = "" if watch.done is None else f", {watch.done:.1%} done"
    if isinstance(left, Unknown):
        return f"step {watch.step}{done}: time left {left}"
    span = f"{duration(left.low)} to {duration(left.high)}"
    return f"step {watch.step}{done}: {duration(left.middle)} left ({span} in nine of ten cases)"


def _machines(names: str, device_file: Path | None, profile: Path | None) -> list[Machine]:
    from elastane.predict.devices import catalog, find, load_devices
    from elastane.predict.profile import default_path, load_profile
    from elastane.predict.step import Machine

    own = load_devices(device_file) if device_file else ()
    known = (*own, *catalog())
    path = profile or default_path()
    if names == "all":
        local = [Machine.local(load_profile(path))] if path.exists() else []
        return [*local, *(Machine.from_catalog(each) for each in known)]
    return [
        Machine.local(load_profile(path)) if name == "local" else Machine.from_catalog(find(name, known))
        for name in filter(None, (each.strip() for each in names.split(",")))
    ]


def _capture(reference: str, batch: int) -> StepCapture:
    from elastane.predict.job import load_factory, require_torch

    require_torch()
    from elastane.predict.capturing import capture

    return capture(load_factory(reference), batch)


def _count(text: str, option: str) -> int:
    scales = {"k": 1e3, "m": 1e6, "b": 1e9}
    body, scale = (text[:-1], scales[text[-1].lower()]) if text[-1:].lower() in scales else (text, 1.0)
    try:
        return round(float(body) * scale)
    except (ValueError, OverflowError):
        raise ElastaneError(f"{option} {text!r} is not a number such as 50000, 50k or 1.28M") from None


def _counts(text: str) -> list[int]:
    try:
        counts = sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise ElastaneError(f"--gpus {text!r} is not a list such as 1,2,4,8") from None
    if counts[0] < 1:
        raise ElastaneError("--gpus must be 1 or more")
    return counts


def _dollars(text: str) -> float:
    try:
        return float(text.strip().removeprefix("$"))
    except ValueError:
        raise ElastaneError(f"--budget {text!r} is not an amount such as $200") from None


def _nothing(runs: list[RunEstimate]) -> str:
    from elastane.predict.report import duration

    fastest = min(runs, key=lambda each: each.total_s.booking)
    where = f"{fastest.sharing.workers} × {fastest.step.machine.device.name}"
    return f"nothing keeps within that; the fastest is {where}, to be booked for {duration(fastest.total_s.booking)}"


def _sentence(about: dict[str, Any]) -> str:
    return (
        f"{about['operators']} operators of {about['networks']} networks measured with {about['threads']} threads: "
        f"{about['gflops']:.0f} GFLOP/s, {about['gb_per_s']:.0f} GB/s; written to {about['profile']}"
    )


def _print(table: Any, captured: StepCapture | None = None, notes: list[str] | None = None) -> None:
    from rich.console import Console

    console = Console()
    console.print(table)
    for note in notes if notes is not None else (captured.notes if captured else ()):
        console.print(note, style="dim")
    if captured is not None and captured.unknown and notes is None:
        names = ", ".join(name for name, _ in captured.unknown)
        console.print(f"not modelled: {captured.unknown_share:.1%} of bytes ({names})", style="dim")


@contextmanager
def _progress(text: str) -> Iterator[Progress]:
    """A bar on the terminal; nothing where nobody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    # Without a thread that draws: measurements fork this process.
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(text, total=1.0)

        def told(done: float, what: str) -> None:
            bar.update(task, completed=done, description=what, refresh=True)

        yield told
