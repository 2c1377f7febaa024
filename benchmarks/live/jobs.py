"""The jobs that are put through it, and what they wrote down about themselves."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.train.timeline import Lap, read_diaries

SCRIPTS = Path(__file__).parent / "scripts"
RETRIES = 1000


def short(
    folder: Path, label: str, seconds: float, *, retries: int = 0, python: str = sys.executable
) -> Mapping[str, Any]:
    """A command that writes to ``folder/label`` when it begins and when it ends."""
    command = [python, str(SCRIPTS / "once.py"), str(folder), label, f"{seconds:.3f}"]
    return {"name": label, "command": command, "kind": "command", "workers": 1, "retries": retries}


def training(
    stamps: Path, workers: Mapping[str, int], *, every_s: float, pause_s: float, python: str = sys.executable
) -> Mapping[str, Any]:
    """An adaptive job without end that writes its steps to ``stamps``."""
    return {
        "name": stamps.name,
        "command": [python, str(SCRIPTS / "training.py"), str(stamps), f"--pause={pause_s}"],
        "kind": "adaptive",
        "workers": dict(workers),
        "checkpoint": {"every": every_s},
        "preemptible": False,
        "retries": RETRIES,
    }


def lines_of(folder: Path, label: str, word: str) -> int:
    """How often a short job began or ended."""
    path = folder / label
    return sum(line.startswith(word) for line in path.read_text().splitlines()) if path.exists() else 0


def laps_of(stamps: Path) -> Sequence[Lap]:
    """Every step of every worker of a training job, in the order in which they were completed."""
    return sorted((lap for diary in read_diaries(stamps) for lap in diary.laps), key=lambda lap: lap.end_s)


def latest_step(stamps: Path) -> int:
    """The last step that was completed."""
    laps = laps_of(stamps)
    return laps[-1].step if laps else 0
