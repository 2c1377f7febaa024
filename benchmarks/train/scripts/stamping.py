"""What a training script writes down about itself: one line per event, at once, so that a kill loses nothing.

``lap STEP BEGIN END WORLD RANK`` is one optimizer step: from the first line of the loop body to the return of
``opt.step()``.  ``born`` and ``ready`` are when the script began and when it was about to train.
Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from elastane.train.script.api import Job

NEW_PER_PROCESS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class Stamps:
    """The file of one worker."""

    def __init__(self, folder: str) -> None:
        name = os.environ.get("ELASTANE_WORKER") or f"rank{os.environ.get('RANK', '0')}"
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._file = os.open(Path(folder) / f"{name}-{os.getpid()}.txt", NEW_PER_PROCESS, 0o644)
        self._begin_s = 0.0
        self.note("born")

    def note(self, what: str) -> None:
        """Something happened now."""
        self._write(f"{what} {time.monotonic()!r}")

    def begin(self) -> None:
        """The loop body begins; only the first unit of a step counts."""
        self._begin_s = self._begin_s or time.monotonic()

    def end(self, job: Job) -> None:
        """The loop body has called ``opt.step()``."""
        if job.stepped:
            self._write(f"lap {job.step} {self._begin_s!r} {time.monotonic()!r} {job.world} {job.rank}")
            self._begin_s = 0.0

    def _write(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())
