"""``elastane bench-gpu``: twelve checks of a machine with GPUs, and one report to paste."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import typer

HELP = """Check this machine's GPUs in about five minutes: start, speed, communicators, deaths, resizes, bits.

Prints a report to paste into an issue and writes the figures beside it as JSON.  The GPUs must be free.  Exit 1 if a
value is odd.
"""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Libraries that start threads when they are imported: the checks fork, which a process with threads must not."""


def command(
    out: Path = typer.Option(Path("bench-gpu.json"), help="Where the figures go, as JSON."),
    devices: int = typer.Option(0, min=0, help="Use so many GPUs [default: all]."),
    only: str = typer.Option("", help="Numbers of the checks to make, as in 2,5."),
    patience: float = typer.Option(60.0, min=1.0, help="Seconds that a check's processes may take."),
    quick: bool = typer.Option(False, "--quick", help="Small sizes, few repetitions; speeds are not judged."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as JSON instead of the report."),
) -> None:
    """Run the checks that this machine allows."""
    from elastane.accelerators import discover
    from elastane.train.coordinator.fork_safety import what_forbids_forking
    from elastane.train.errors import TrainError
    from elastane.train.gpu_bench.findings import Setting
    from elastane.train.gpu_bench.report import CHECKS, examine, head, well

    found = tuple(device.id for device in discover().devices)
    if not found:
        raise TrainError("there are no GPUs here that could be checked (elastane doctor says what was found)")
    if devices > len(found):
        raise TrainError(f"--devices: {devices} were asked for, but there are {len(found)}")
    if not out.parent.is_dir():
        raise TrainError(f"--out: there is no folder {out.parent}")
    chosen = [check for check in CHECKS if check.number in _numbers(only)] if only else CHECKS
    names = found[: devices or None]
    sizes = Setting(names, (1, 4), 2, 1.0, speeds=False) if quick else Setting(names)
    setting = replace(sizes, patience_s=patience)
    if not what_forbids_forking():
        os.environ.update(_ONE_THREAD)  # and of what is started from here
    elif os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        given = ["--out", str(out), "--devices", str(devices), "--only", only, "--patience", str(patience)]
        words = [
            sys.executable,
            "-m",
            "elastane",
            "bench-gpu",
            *given,
            *(["--quick"] if quick else []),
            *(["--json"] if as_json else []),
        ]
        os.execve(sys.executable, words, {**os.environ, **_ONE_THREAD})  # noqa: S606
    if not as_json:
        typer.echo(head())
    lines = []
    for line in examine(setting, chosen, lambda check: typer.echo(f"{check.title} …", err=True)):
        if not as_json:
            typer.echo(line.text())
        lines.append(line)
    document = {"report": head(), "ok": well(lines), "checks": [line.to_json() for line in lines]}
    text = json.dumps(document, indent=2)
    if as_json:
        typer.echo(text)
    try:
        out.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise TrainError(f"--out: {out} cannot be written: {error.strerror}") from None
    typer.echo(f"The figures are in {out}", err=True)
    raise typer.Exit(0 if well(lines) else 1)


def _numbers(text: str) -> frozenset[int]:
    from elastane.train.errors import TrainError
    from elastane.train.gpu_bench.report import CHECKS

    known = {str(check.number): check.number for check in CHECKS}
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise TrainError(f"--only: there is no check {word!r}; checks are 0 to {len(CHECKS) - 1}")
    return frozenset(known[word] for word in words)
