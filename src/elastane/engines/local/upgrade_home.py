"""Takes up a home of an earlier version, in which all files of a job lay in the job's own folder.

What still runs there belongs to that version: agents and supervisors are ended, and with them what they started, so
that adaptive jobs go on from their last checkpoint.  Nothing is copied or removed, only renamed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from elastane.engines.local.json_files import Lock
from elastane.engines.local.lock_holders import kill_holders
from elastane.engines.local.paths import CONTROL, JOURNAL, LOCK, PLANS, Layout

_PATIENCE_S, _LOOK_S = 10.0, 0.02
_TAKEN_UP = "taken-up"
"""In the folder of records, once none lies elsewhere."""
_SPOKEN = "mutual-login"
"""There, too, once nobody is left who logs in as versions before ``login`` did: nobody could talk to him."""


def take_up(layout: Layout) -> int:
    """Move files to where they belong now; returns how many jobs had any elsewhere.  Harmless to repeat.

    Done once: from then on what lies in a job's folder and looks like ours was put there by the job.
    """
    moved = _take_up_files(layout)
    _end_speakers(layout)
    return moved


def _end_speakers(layout: Layout) -> None:
    """End agents and supervisors that speak the protocol of an earlier version."""
    done = layout.control / _SPOKEN
    if not done.exists():
        locks = [layout.agent_lock(node) for node in layout.nodes()]
        for lock in (*locks, *layout.control.glob(f"*/attempt-*/{LOCK}")):
            _end_holder(lock)
        done.touch(mode=0o600)


def _take_up_files(layout: Layout) -> int:
    done = layout.control / _TAKEN_UP
    if done.exists():
        return 0
    old = [folder for folder in _jobs(layout) if _attempts(folder)]
    if old:
        for node in layout.nodes():
            _end_holder(layout.agent_lock(node))
    for folder in old:
        for attempt in _attempts(folder):
            _end_holder(attempt / LOCK)
        _move(layout, folder)
    layout.control.mkdir(mode=0o700, parents=True, exist_ok=True)
    done.touch(mode=0o600)
    return len(old)


def _jobs(layout: Layout) -> list[Path]:
    place = layout.home / "jobs"
    return sorted(entry for entry in place.iterdir() if entry.is_dir()) if place.is_dir() else []


def _attempts(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.glob("attempt-*") if entry.is_dir() and not entry.is_symlink())


def _move(layout: Layout, folder: Path) -> None:
    target = layout.records(folder.name)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Attempts last: as long as one is left, a start that was cut short is repeated.
    for source in (*_records(folder / "run"), *_attempts(folder)):
        if not (target / source.name).exists():
            source.rename(target / source.name)


def _records(run: Path) -> Iterator[Path]:
    for name in (PLANS, JOURNAL, CONTROL):
        path = run / name
        if path.is_file() and not path.is_symlink():
            yield path


def _end_holder(path: Path) -> None:
    lock, deadline = Lock(path), time.monotonic() + _PATIENCE_S
    # What is no regular file was never locked by us, and may not be opened.
    while path.is_file() and not path.is_symlink() and lock.held and time.monotonic() < deadline:
        kill_holders(path)
        time.sleep(_LOOK_S)
