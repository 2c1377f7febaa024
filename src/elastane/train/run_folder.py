"""Names the folders that runs of ``elastane train`` write to."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


def default_run(script: str, now_s: float) -> Path:
    """Returns the folder of a run that was given none: ``runs/SCRIPT-DATE-TIME``."""
    stamp = datetime.fromtimestamp(now_s).strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{Path(script).stem or 'session'}-{stamp}"
