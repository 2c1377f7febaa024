"""Defines arguments and options that several verbs of ``elastane predict`` share."""

from __future__ import annotations

import typer

JOB = typer.Argument(None, metavar="MODULE:FUNCTION", help="A function that returns a TrainingJob.")
SCRIPT = typer.Option(
    None, help="Instead: a training script, as in 'train.py --lr 0.1'; two of its steps are run here."
)
BATCH = typer.Option(32, "-b", "--batch", min=1, help="Samples per step of one worker.")
PRECISION = typer.Option("fp32", help="fp32, tf32, bf16, fp16 or fp8.")
DEVICE = typer.Option(
    "local", help="local (after calibrate), names of the catalog with commas between, or all."
)
DEVICE_FILE = typer.Option(None, help="Devices of your own, JSON or CSV.")
PROFILE = typer.Option(None, help="Profile of this machine [default: in the user's cache].")
JSON = typer.Option(False, "--json", help="Print JSON.")
