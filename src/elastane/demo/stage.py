"""Starts the live system of the demo in a temporary home, and removes both without a trace afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elastane.client import Client
from elastane.engines.local.marked_processes import marked
from elastane.engines.local.paths import Layout
from elastane.engines.local.process_containment import end_everything
from elastane.errors import ElastaneError
from elastane.service.home import TOKEN, start_detached, stop

NODES, SLOTS = 2, 2
INTERVAL_S = 3.0
_END_S, _SWEEP_S = 3.0, 10.0
_HOME = "ELASTANE_HOME"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was cleaned up: processes that ended as asked, those that had to be killed, and those that are left."""

    ended: int
    killed: int
    left: int
    home_removed: bool

    @property
    def all_gone(self) -> bool:
        """Whether neither a process nor the home is left."""
        return not self.left and self.home_removed


class Stage:
    """A live system in a temporary folder; ``close`` ends it and removes the folder."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="elastane-demo-")).resolve()
        self.home = self.root / "home"
        self.home.mkdir(mode=0o700)
        self.layout = Layout(self.home)
        self._client: Client | None = None

    def open(self) -> Client:
        """Starts the live system in the background and returns a client of it."""
        words = [f"--home={self.home}", f"--nodes={NODES}", f"--slots={SLOTS}", f"--interval={INTERVAL_S:g}"]
        words.append("--jobs-as=me")  # its jobs are our own, even if root runs it
        there = start_detached(self.home, words, leashed=True)
        self._client = Client(there.url, (self.home / TOKEN).read_text().strip(), timeout_s=20.0)
        return self._client

    def workplace(self, name: str) -> Path:
        """Returns the folder, created if need be, for a job to run in."""
        place = self.home / "work" / name
        place.mkdir(parents=True, exist_ok=True)
        return place

    def close(self) -> Cleaned:
        """Ends all processes, whatever state they are in, and removes the home; ignores interrupts."""
        with _undisturbed():
            if self._client is not None:
                self._client.close()
            before = len(self.processes())
            self.end()
            self._wait_for_ends()
            killed = self._sweep()
            end_everything(self.layout)
            shutil.rmtree(self.root, ignore_errors=True)
            left = len(self.processes())
            return Cleaned(max(0, before - killed), killed, left, not self.root.exists())

    def end(self) -> None:
        """Asks the system to end everything."""
        with contextlib.suppress(ElastaneError):
            stop(self.home, leave_running=False)

    def processes(self) -> list[int]:
        """Returns the ids of all processes that were started from this home, directly or indirectly."""
        return sorted({*_processes_of(self.home), *(pid for pid, _ in marked(self.home))})

    def environment(self) -> dict[str, str]:
        """Returns the environment for processes of the demo, by which ``processes`` finds them."""
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return {**os.environ, **threads, _HOME: str(self.home)}

    def _wait_for_ends(self) -> None:
        """Waits a moment for processes that were asked to end: they may outlive the release of their lock."""
        deadline = time.monotonic() + _END_S
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)

    def _sweep(self) -> int:
        """Kills processes that did not end when asked, repeatedly, since one may start another meanwhile."""
        killed, deadline = set[int](), time.monotonic() + _SWEEP_S
        while (found := self.processes()) and time.monotonic() < deadline:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
            time.sleep(0.05)
        return len(killed)


def _processes_of(home: Path) -> Iterator[int]:
    mark = f"{_HOME}={home}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignores SIGINT and SIGTERM while the demo cleans up."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
