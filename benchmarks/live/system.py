"""One live system in processes of its own: started, killed, asked and swept from outside, as its users would."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.harness import Stuck, processes_of, sweep
from benchmarks.train.live import environment
from elastane.client import Client
from elastane.engines.local.marked_processes import kill_marked, marked
from elastane.engines.local.paths import Layout
from elastane.engines.local.process_containment import end_everything
from elastane.service.home import PID, TOKEN, URL

T = TypeVar("T")
PATIENCE_S = 120.0
_LOOK_S = 0.01
_IDLE_TICKS = 5
UP = ("-m", "elastane", "up")


def until(condition: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """Wait for something that is not None (nor false)."""
    give_up_s = time.monotonic() + patience_s
    while not (found := condition()):
        if time.monotonic() > give_up_s:
            raise Stuck(f"{what} did not happen within {patience_s:g} s")
        time.sleep(_LOOK_S)
    return found


class System:
    """Use as a context: nothing that it started outlives it.  One control plane at a time, on one home."""

    def __init__(
        self,
        home: Path,
        *,
        nodes: int = 2,
        slots: int = 2,
        options: Sequence[str] = (),
        python: str = sys.executable,
    ) -> None:
        self.home, self.python = home, python
        self.log = home.with_suffix(".log")
        self._options = [f"--home={home}", f"--nodes={nodes}", f"--slots={slots}", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> System:
        self.home.parent.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        while sweep(self.home) + kill_marked(self.home, lambda _: True):
            time.sleep(_LOOK_S)
        end_everything(Layout(self.home))

    def launch(self, program: Sequence[str] = UP, more: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a control plane and return at once."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self.python, *program, *self._options, *more],
                env=environment(ELASTANE_HOME=str(self.home)),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process

    def start(self, more: Sequence[str] = ()) -> float:
        """Start a control plane; returns how long it took until it answered."""
        began_s = time.monotonic()
        process = self.launch(more=more)
        self.wait_for(process)
        with self.client() as client:
            client.info()
        return time.monotonic() - began_s

    def wait_for(self, process: subprocess.Popen[bytes]) -> None:
        """Until this control plane serves."""
        until(lambda: self.serves(process) or process.poll() is not None, f"{self.home}: a control plane")
        if process.poll() is not None:
            raise Stuck(f"{self.home}: no control plane (exit code {process.returncode}): {self.last_words()}")

    def serves(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether it has said where it is."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.home / PID).read_text()) == process.pid
        return False

    def client(self, timeout_s: float = 30.0) -> Client:
        """For the administrator."""
        return Client(
            (self.home / URL).read_text().strip(), (self.home / TOKEN).read_text().strip(), timeout_s=timeout_s
        )

    @property
    def pid(self) -> int:
        """Of the control plane."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill −9 of the control plane, and of nothing else."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def end(self) -> int:
        """Ask it to end and to take everything along; returns its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_S)

    def processes(self) -> list[int]:
        """All that belong to this home, the control plane included."""
        return [pid for pid in {*processes_of(self.home), *dict(marked(self.home))} if alive(pid)]

    def rest(self) -> None:
        """Wait until nobody here has anything to do: agents warm workers up for seconds after they were started."""

        def idle() -> bool:
            before = self._cpu_ticks()
            time.sleep(1.0)
            return self._cpu_ticks() - before < _IDLE_TICKS

        until(idle, f"rest in {self.home}")

    def cpu_s(self) -> float:
        """What the control plane has used so far."""
        assert self._process is not None
        return sum(map(int, _stat(self._process.pid)[11:13])) / os.sysconf("SC_CLK_TCK")

    def _cpu_ticks(self) -> int:
        return sum(sum(map(int, _stat(pid)[11:13])) for pid in self.processes())

    def last_words(self, lines: int = 3) -> str:
        """Of the control planes so far."""
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def alive(pid: int) -> bool:
    """Not one that has ended and waits to be collected."""
    return _stat(pid)[0] != "Z"


def _stat(pid: int) -> list[str]:
    """What the system says of a process, from its state on; of one that is gone, that it is dead."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return ["Z", *["0"] * 20]


def kill_one(pid: int) -> bool:
    """Kill −9; whether there was anybody."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
