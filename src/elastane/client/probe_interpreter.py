"""Asks a Python interpreter what it can import, in a process with the rights of the submitting user."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_S = 20.0
"""A busy machine and a cold disk take seconds; a hanging one must not keep its user."""
_QUESTION = """
import importlib.util, json, sys
sys.path[:] = [place for place in sys.path if place]
try:
    import elastane, elastane.train.coordinator.forkserver
    version = elastane.__version__
except BaseException:
    version = ""
print(json.dumps({"elastane": version, "torch": importlib.util.find_spec("torch") is not None}))
"""
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Found:
    """What an interpreter has; ``problem`` says why it could not be asked."""

    elastane: str | None = None
    torch: bool | None = None
    problem: str = ""


def probe(path: str, environment: Mapping[str, str], directory: Path, patience_s: float = PATIENCE_S) -> Found:
    """Start it with the job's variables and let it say; at most so many seconds."""
    with tempfile.TemporaryFile() as said:  # not a pipe: whoever it starts could hold that open
        try:
            asked = subprocess.Popen(  # noqa: S603
                [path, "-c", _QUESTION],
                env=dict(environment),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Found(problem=str(getattr(error, "strerror", None) or error).lower())
        in_time = _wait(asked, patience_s)
        said.seek(max(0, said.seek(0, os.SEEK_END) - _MOST))
        found = _read(said.read(_MOST).decode(errors="replace"))
    if not in_time:
        return Found(problem=f"it did not answer within {patience_s:g} s")
    return found or Found(problem="it is no Python that we know")


def _wait(asked: subprocess.Popen[bytes], patience_s: float) -> bool:
    """Whether it ended by itself; whatever is left of it ends now."""
    try:
        asked.wait(patience_s)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.killpg(asked.pid, signal.SIGKILL)
        asked.wait()


def _read(text: str) -> Found | None:
    """What the last line says; a site's own start-up code may have printed others."""
    try:
        said: Any = json.loads(text.strip().splitlines()[-1])
        return Found(str(said["elastane"])[:100], bool(said["torch"]))
    except (ValueError, LookupError, TypeError):
        return None
