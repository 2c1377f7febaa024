"""Folders of runs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


def default_run(script: str, now_s: float) -> Path:
    """A folder of its own for each run."""
    stamp = datetime.fromtimestamp(now_s).strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{Path(script).stem or 'session'}-{stamp}"
