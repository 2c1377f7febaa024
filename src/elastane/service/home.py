"""The home of a live system: which files lie there, whether one runs on it, and how to start and end it.

Nothing of the system itself is imported: whoever starts or ends one in the background need not wait for that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elastane.engines.local.job_users import JobsAs
from elastane.engines.local.json_files import Lock
from elastane.engines.ray.options import RayOptions
from elastane.errors import ElastaneError
from elastane.kit.atomic_files import write_atomically
from elastane.service.limits import Limits

if TYPE_CHECKING:
    from elastane.service.store import Store

PID, URL, TOKEN, LOCK, DATABASE = "elastane.pid", "url", "token", "elastane.lock", "elastane.db"
LEFT = "left"
"""What became of the jobs when the system was ended last, in words."""
LEASH = "ELASTANE_UP_LEASH"
"""The process with which a system in the background shall end, if it is to."""
_PASSAGES = frozenset({"jobs", "users", "devices", "packages"})
"""Folders in the home that others may pass through: what is theirs lies there."""
_START_S, _STOP_S = 30.0, 60.0


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options that a live system is started with."""

    home: Path
    nodes: int | None = None
    slots: int | None = None
    host: str = "127.0.0.1"
    port: int = 0
    policy: str = "elastane"
    interval_s: float | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    min_run_s: float = 60.0
    restore: bool = False
    """Go back to the last good copy of the store first."""
    limits: Limits = Limits()
    jobs_as: JobsAs = JobsAs()
    checkpoints: str = ""
    """The place beneath which jobs save that name none themselves; empty: each in its own folder."""
    machines: RayOptions | None = None
    """The Ray cluster that supplies machines, if any does."""
    listen: str = ""
    """Where nodes on other machines join, as ``HOST:PORT``; empty if they cannot."""


def default_home() -> Path:
    """Where everything is kept: ``$ELASTANE_HOME``, or a folder in the user's own."""
    return Path(os.environ.get("ELASTANE_HOME") or Path.home() / ".elastane")


def open_store(home: Path | None) -> Store:
    """The store of a home (None: the default one), whether a system runs on it or not."""
    from elastane.service.store import Store

    path = (home or default_home()) / DATABASE
    if not path.exists():
        raise ElastaneError(f"there is no live system in {path.parent}; start one with 'elastane up'")
    return Store.open(path)


@dataclass(frozen=True, slots=True)
class Address:
    """Process and URL of a running system."""

    pid: int
    url: str


def running(home: Path) -> Address | None:
    """The system that runs on a home, if any does."""
    lock = Lock(home / LOCK)
    if not lock.held:
        return None
    try:
        said = int((home / PID).read_text())
        # Whoever is signalled must be the one that holds the lock: the file alone could name anybody.
        return Address(lock.holder() or said, (home / URL).read_text().strip())
    except (OSError, ValueError):
        return None


def check_reach(options: UpOptions) -> None:
    """Raise unless the users who run jobs can reach the home, and Elastane itself."""
    home = options.home
    parent = next(place for place in home.parents if place.exists())
    options.jobs_as.check_reach(parent, (Path(sys.executable), Path(__file__).parent, Path(sys.base_prefix)))


def make_home(home: Path) -> None:
    """Make the folder, for its owner's eyes only; one that is there stays as it is, for a system may run on it."""
    with _told(home):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)


def close_home(home: Path, *, entered: bool = False) -> None:
    """Restrict a home to its owner; with ``entered`` others may pass through to folders of their own.

    Only whoever holds the lock of a home may do that: the jobs of a running system need it as it is.
    """
    with _told(home):
        if entered:
            _seal(home)
        home.chmod(0o711 if entered else 0o700)


@contextlib.contextmanager
def _told(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ElastaneError(
            f"{home} cannot be the home of Elastane: {error.strerror}; set ELASTANE_HOME"
        ) from None


def _seal(home: Path) -> None:
    """Close everything in it to others, but the way to what is theirs: jobs of our own had no need of that."""
    ours = [entry for entry in home.iterdir() if entry.name not in _PASSAGES]
    jobs = home / "jobs"
    for job in jobs.iterdir() if jobs.is_dir() else ():
        run = job / "run"
        if not run.is_dir() or run.lstat().st_uid == os.geteuid():
            ours.append(job)  # opened when it runs again, as somebody else
    for passage in _PASSAGES:
        if (home / passage).is_dir():
            (home / passage).chmod(0o711)
    for entry in ours:
        if not entry.is_symlink():
            entry.chmod(entry.stat().st_mode & 0o700)


def write_text(path: Path, text: str) -> None:
    """A file that is there wholly or not at all, for its owner's eyes only."""
    write_atomically(path, f"{text}\n", private=True)


def start_detached(home: Path, arguments: Sequence[str], *, leashed: bool = False) -> Address:
    """``elastane up`` in the background; returns once it answers.  ``leashed``: it ends when this process does."""
    there = running(home)
    if there is not None:
        raise ElastaneError(f"Elastane runs on {home} already (process {there.pid}, {there.url})")
    make_home(home)
    log = home / "elastane.log"
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as output:
        process = subprocess.Popen(  # noqa: S603
            # -P: we stay in this directory, since files may be named from here, but import nothing that lies in it.
            [sys.executable, "-P", "-m", "elastane", "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "ELASTANE_HOME": str(home), **({LEASH: str(os.getpid())} if leashed else {})},
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        there = running(home)
        if there is not None:
            return there
        if process.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            last = lines[-1] if lines else f"it ended with exit code {process.returncode}"
            raise ElastaneError(last.removeprefix("error: "))
        time.sleep(0.05)
    raise ElastaneError(f"Elastane did not start within {_START_S:g} s; see {log}")


def left(home: Path) -> str:
    """What became of its jobs when the system on a home was ended."""
    try:
        return (home / LEFT).read_text().strip()
    except (OSError, ValueError):
        return ""


def stop(home: Path, *, leave_running: bool) -> Address | None:
    """End what runs on a home, and wait for it; None where nothing runs."""
    there = running(home)
    if there is None:
        (home / PID).unlink(missing_ok=True)
        return None
    if Lock(home / LOCK).holder() != there.pid:
        raise ElastaneError(
            f"process {there.pid} does not hold the lock of {home}, so it is not ended; end Elastane there by hand"
        )
    with contextlib.suppress(ProcessLookupError):
        os.kill(there.pid, signal.SIGHUP if leave_running else signal.SIGTERM)
    lock, deadline = Lock(home / LOCK), time.monotonic() + _STOP_S
    while lock.held and time.monotonic() < deadline:
        time.sleep(0.05)
    if lock.held:
        raise ElastaneError(
            f"process {there.pid} did not end within {_STOP_S:g} s; see {home / 'elastane.log'}"
        )
    return there
