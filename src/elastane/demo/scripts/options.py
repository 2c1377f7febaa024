"""Parses the command line that the scripts of the demo share."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Epochs, batch and mode of a training; ``batch`` is that of all workers together."""

    epochs: int
    batch: int
    mode: str | None


def parse() -> Options:
    """Parses the options from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--mode", help="fixed, adaptive or consistent")
    said = parser.parse_args()
    return Options(said.epochs, said.batch, said.mode)
