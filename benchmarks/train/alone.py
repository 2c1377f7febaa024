"""Scripts as plain Python programs, without anything around them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Stuck
from benchmarks.train.live import PATIENCE_S, SCRIPTS, environment


def start(script: str, run: Path, arguments: Sequence[str], **variables: str) -> subprocess.Popen[str]:
    """Begin; ``finish`` must follow."""
    run.parent.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, str(SCRIPTS / script), *arguments],
        env=environment(ELASTANE_RUN=str(run), **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """What it printed; an error if it failed."""
    try:
        out, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    if process.returncode:
        raise Stuck(f"{process.args!r} ended with {process.returncode}: {errors[-2000:]}")
    return out
