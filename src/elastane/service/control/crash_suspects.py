"""Remembers, over the death of a control plane, which job it was looking at when it died while starting.

What a job makes us raise is contained at once; this is for what cannot be caught: memory that ran out, a crash in
somebody's compiled code.  One death is enough: the next start sets the job aside without looking at it.  It may have
been anybody's kill, so nothing of the job is lost by that: what it runs goes on, what was learned of it stays, and the
first start after one that came to its end looks at it again, as does an administrator's ``resume``.  Who kills that
start as well fails.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from elastane.engines.local.json_files import read_json

FILE = "starting.json"
_ROOM = 4096
"""Bytes of the file: it is written over in place, so that writing is cheap."""
_MOST = 100
"""Jobs that are remembered, the latest."""
FAILED = 2
"""After so many deaths a job fails."""


class Suspects:
    """From the beginning of a start to the end of its first round; afterwards nobody is watched."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._fd: int | None = None
        self._tried: dict[str, int] = {}
        """Deaths of jobs that were set aside and are looked at again now."""
        said = read_json(self._path)
        self.died = said is not None and said.get("over") is not True
        """Whether the last start never came to its end."""
        self.nobody = False
        """Whether it died, and it is not known over whom."""
        self._aside = _deaths(said.get("aside")) if said else {}
        if said and self.died:
            self._blame(str(said.get("job", "")), _deaths(said.get("tried")))
        elif said:
            self._tried = {job: deaths for job, deaths in self._aside.items() if deaths < FAILED}
            self._aside = {job: deaths for job, deaths in self._aside.items() if deaths >= FAILED}
        self._watch()

    def _blame(self, looked_at: str, tried: dict[str, int]) -> None:
        """Whom the last start died over; if that is not known, those that it gave another try are the likeliest."""
        if looked_at:
            deaths = max(self._aside.pop(looked_at, 0), tried.get(looked_at, 0)) + 1
            self._aside[looked_at] = deaths
        else:
            self.nobody = True
            self._aside |= tried

    def strikes(self, job: str) -> int:
        """How many starts died while they looked at it, for one that is set aside; 0 for any other."""
        return self._aside.get(job, 0)

    def keep_only(self, jobs: Collection[str]) -> None:
        """Forget whoever is not among these."""
        self._aside = {job: deaths for job, deaths in self._aside.items() if job in jobs}
        self._tried = {job: deaths for job, deaths in self._tried.items() if job in jobs}
        self._write("")

    def release(self, job: str) -> None:
        """From now on it may be looked at again; a death before the end of the next round is held against it."""
        self._tried[job] = self._aside.pop(job, 0)
        self._watch()

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
        if self._fd is None:
            return
        self._tried = {}
        self._write("", over=True)
        os.close(self._fd)
        self._fd = None
        if not self._aside:
            self._path.unlink(missing_ok=True)

    def _watch(self) -> None:
        if self._fd is None:
            with contextlib.suppress(OSError):
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._write("")

    def _write(self, job: str, *, over: bool = False) -> None:
        if self._fd is not None:
            note = {"job": job, "aside": _latest(self._aside), "tried": _latest(self._tried), "over": over}
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, json.dumps(note).encode().ljust(_ROOM)[:_ROOM], 0)


def _latest(deaths: dict[str, int]) -> dict[str, int]:
    return dict(list(deaths.items())[-_MOST:])


def _deaths(said: object) -> dict[str, int]:
    if not isinstance(said, dict):
        return {}
    return {str(job): count for job, count in said.items() if isinstance(count, int) and count > 0}
