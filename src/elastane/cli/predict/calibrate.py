"""Implements ``elastane predict calibrate``: measures this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from elastane.cli.predict import options
from elastane.cli.predict.outputs import progress

HELP = "Measure this machine, so that predictions for it are worth something."


def command(
    seconds: float = typer.Option(100.0, min=5.0, help="About how long to measure."),
    from_job: str = typer.Option(
        None, metavar="MODULE:FUNCTION", help="Measure this job as well, before others."
    ),
    batch: int = options.BATCH,
    threads: int = typer.Option(None, min=1, help="Threads to measure with [default: PyTorch's own]."),
    profile: Path = options.PROFILE,
    as_json: bool = options.JSON,
) -> None:
    """Measures this machine and writes its profile."""
    from elastane.predict.job import load_factory, require_torch
    from elastane.predict.profile import default_path

    torch = require_torch()
    own = [(load_factory(from_job), batch)] if from_job else []
    if threads:
        torch.set_num_threads(threads)
    from elastane.predict.calibration.calibrate import calibrate

    target = profile or default_path()
    with progress("measuring") as advance:
        found = calibrate(seconds, progress=advance, own=own)
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


def _sentence(about: dict[str, Any]) -> str:
    return (
        f"{about['operators']} operators of {about['networks']} networks measured with {about['threads']} threads: "
        f"{about['gflops']:.0f} GFLOP/s, {about['gb_per_s']:.0f} GB/s; written to {about['profile']}"
    )
