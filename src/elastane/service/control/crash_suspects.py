"""Remembers, over the death of a control plane, which job it was looking at when it died while starting.

What a job makes us raise is contained at once; this is for what cannot be caught: memory that ran out, a crash in
somebody's compiled code.  One death may be anybody's kill, so it costs the job no more than what was learned of it; two
in a row while the same job was looked at make it fail or, if it has no processes, leave it alone.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from elastane.engines.local.json_files import read_json

FILE = "starting.json"
_ROOM = 4096
"""Bytes of the file: it is written over in place, so that writing is cheap."""
FAILED = 2
"""After so many deaths a job fails."""


class Suspects:
    """From the beginning of a start to the end of its first round; afterwards nobody is watched."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        said = read_json(self._path)
        self.died = said is not None
        """Whether the last start never came to its end."""
        self._strikes = _strikes(said.get("strikes") if said else None)
        looked_at = str(said.get("job", "")) if said else ""
        if looked_at:
            self._strikes = {looked_at: self._strikes.get(looked_at, 0) + 1}
        self.nobody = self.died and not looked_at
        """Whether it died, and it is not known over whom."""
        self._fd: int | None = None
        with contextlib.suppress(OSError):
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self._write("")

    def strikes(self, job: str) -> int:
        """In how many starts in a row it was the one that was looked at."""
        return self._strikes.get(job, 0)

    @contextlib.contextmanager
    def looking_at(self, job: str) -> Iterator[None]:
        """Whoever dies in this block died over this job; an exception is no death."""
        if self._fd is None:
            yield
            return
        self._write(job)
        try:
            yield
        except Exception:
            self._write("")
            raise
        self._write("")

    def clear(self) -> None:
        """Stop watching: the start came to its end, so nothing that follows is held against a job."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._path.unlink(missing_ok=True)

    def _write(self, job: str) -> None:
        if self._fd is not None:
            line = json.dumps({"job": job, "strikes": self._strikes}).encode()
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, line.ljust(_ROOM)[:_ROOM], 0)


def _strikes(said: object) -> dict[str, int]:
    if not isinstance(said, dict):
        return {}
    return {str(job): count for job, count in said.items() if isinstance(count, int)}
