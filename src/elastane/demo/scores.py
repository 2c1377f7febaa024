"""Reads the score that a script has written into the folder it ran in (``scripts.score``)."""

from __future__ import annotations

import json
from pathlib import Path

FILE = "score.json"
"""The scripts know it as well; one of them knows nothing else of Elastane."""


def accuracy_in(folder: Path) -> float | None:
    """Returns the accuracy of the last epoch that ended; None if none did."""
    try:
        score = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    accuracy = score.get("accuracy") if isinstance(score, dict) else None
    return float(accuracy) if isinstance(accuracy, int | float) else None
