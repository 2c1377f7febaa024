"""What equal bits cost: the figures of ``benchmarks.train_reduce``, taken over into this report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.harness import Bench, Stuck
from benchmarks.train.live import ROOT, environment

RESULT = Path("build/bench/train_reduce.json")


def consistent(bench: Bench) -> None:
    """It forks workers, so it gets a process of its own; that prints, this only counts."""
    RESULT.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.train_reduce"]
    code = subprocess.run(command, env=environment(ELASTANE_RUN=str(bench.folder)), cwd=ROOT, check=False)
    if not RESULT.exists():
        raise Stuck(f"benchmarks.train_reduce ended with {code.returncode} and no figures")
    bench.figures.all += [Figure(**row) for row in json.loads(RESULT.read_text())]
