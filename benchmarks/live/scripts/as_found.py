"""Runs a poison as it was found: ``as_found.py SCRIPT SCRATCH WHAT``.

It was written when all files of a job lay in one folder, so it is shown the service's records of the job under the
name of that folder, and its own names of folders are filled in.

It does not say when its deed is done.  That is taken from what it does: it goes to sleep (all of them do that when they
are done), or comes to the end it is meant to have.  ``deed`` is written then, and only if what it was to spoil has
changed; one that breaks before is ``broken``, one that is not allowed to is ``hindered``.  Every process that it forks
owns up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import runpy
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.live.scripts.poisons.place import Place

SPOILS = {"members": "members.json", "ended": "ended.json", "control": "control.json", "plans": "plans.jsonl"}
"""By the beginning of what ``attack.py`` is asked to do: which file; the journal for all others."""

_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
_EFFECT_S = 2.0
"""What its children do may take a moment."""


def spoiled(place: Place, script: str, what: str) -> Path | None:
    """What a poison is to spoil; None for one that only reads, runs or dies."""
    run = Path(os.environ["ELASTANE_RUN"])
    if script == "forge.py":
        return attempt_of(run) / "ended.json"
    if script == "escape.py":
        return place.scratch / "pids"
    if script == "rot.py":
        return run / "logs" / "zz.log"
    if script == "filler.py":
        return place.scratch / "fill2"
    if script != "attack.py":
        return None
    if what in ("logdir", "w9"):
        return run / "logs" / ("w9.log" if what == "w9" else "")
    name = next((file for start, file in SPOILS.items() if what.startswith(start)), "events.jsonl")
    within_attempt = name in ("members.json", "ended.json")
    return (attempt_of(run) if within_attempt else run) / name


def attempt_of(run: Path) -> Path:
    """Where an earlier version kept what it decided by: beside the job's own folder."""
    return max(run.parent.glob("attempt-*"), default=run.parent / "attempt-1")


def state_of(path: Path | None) -> object:
    """What stands at a path, so that a change shows."""
    if path is None:
        return None
    try:
        facts = path.lstat()
    except OSError:
        return "nothing"
    return facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns


class Watched:
    """Says what became of one poison, once."""

    def __init__(self, place: Place, target: Path | None, *, closed: bool = False) -> None:
        self._place, self._target, self._closed = place, target, closed
        self._before, self._said, self._sleep = state_of(target), False, time.sleep

    def done(self) -> None:
        """It has come to where its deed is behind it."""
        if self._said:
            return
        give_up_s = time.monotonic() + _EFFECT_S
        while (same := self._target is not None and state_of(self._target) == self._before) and (
            time.monotonic() < give_up_s
        ):
            self._sleep(0.02)
        if same and not self._closed:
            self._say("broken", f"{self._target} is as it was")
        else:
            self._say("deed", "")

    def broke(self, error: BaseException) -> None:
        """It raised what it was not meant to; what the system forbids is no fault of its own."""
        hindered = self._closed or (isinstance(error, OSError) and error.errno in _FORBIDDEN)
        if hindered and not self._said:
            (self._place.scratch / "deed").touch()
        self._say("hindered" if hindered else "broken", traceback.format_exc())

    def _say(self, name: str, words: str) -> None:
        if not self._said:
            self._said = True
            (self._place.scratch / name).write_text(words)


def own_up_in(place: Place, fork: Callable[[], int]) -> Callable[[], int]:
    """A fork whose children tell the benchmark of themselves, whatever becomes of them."""

    def forked() -> int:
        pid = fork()
        if not pid:
            place.own_up(os.getpid())
        return pid

    return forked


def meant_to_end_so(script: str, error: BaseException) -> bool:
    """Whether this is the end for which a poison was written."""
    return script.startswith("surr") and "udce9" in ascii(str(error))


def main() -> None:
    """Run it."""
    script, scratch, what = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    place = Place(Path(os.environ["ELASTANE_RUN"]), scratch)
    place.own_up(os.getpid())
    if what not in ("", "logdir", "w9") or script.name == "forge.py":
        with contextlib.suppress(OSError):
            (place.records / "run").symlink_to(".")
            os.environ["ELASTANE_RUN"] = str(place.records / "run")
    elif what:
        with contextlib.suppress(OSError):
            (place.run.parent / "attempt-1").mkdir()
    text = script.read_text().replace("SCRATCH", str(scratch)).replace("FULL_DISK", str(scratch))
    if script.name == "filler.py":
        text = text.replace("while True", "for _ in range(2000)")
    words = ["--adaptive"] if what == "adaptive" else []
    sys.argv = [str(script), *([what, "240"] if what and not words else ["shared"]), *words]
    copy = scratch / script.name
    copy.write_text(text)
    closed = not os.access(place.records, os.R_OK | os.W_OK | os.X_OK)
    watched, sleep = Watched(place, spoiled(place, script.name, what), closed=closed), time.sleep

    def slept(seconds: Any) -> None:
        if sys._getframe(1).f_code.co_filename == str(copy):  # not a library of ours
            watched.done()
        sleep(seconds)

    time.sleep = slept
    os.fork = own_up_in(place, os.fork)
    run(copy, script.name, watched)


def run(copy: Path, name: str, watched: Watched) -> None:
    """Until its end."""
    try:
        runpy.run_path(str(copy), run_name="__main__")
    except BaseException as error:
        if meant_to_end_so(name, error):
            watched.done()
        else:
            watched.broke(error)
        raise
    watched.done()


if __name__ == "__main__":
    main()
