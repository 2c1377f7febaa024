"""What others do to change the number of workers: stop everything and start it again from a checkpoint.

``StaticGroup`` is the classical way: all processes save and end, then a new group of fresh ones begins.
``TorchrunAgents`` is torchrun's own elasticity, one agent per worker.  Both run the very script that
``elastane train`` runs, and it resumes by itself.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Stuck, sweep
from benchmarks.train.live import PATIENCE_S, SCRIPTS, environment
from benchmarks.train.timeline import Lap, leader_laps, read_diaries

_LOOK_S = 0.1
_RENDEZVOUS = ("--rdzv-backend=c10d", "--rdzv-conf=last_call_timeout=1", "--rdzv-id=bench")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class ColdJob:
    """A job of fresh processes in ``folder``; use as a context: nothing that it started outlives it."""

    def __init__(self, script: str, folder: Path, arguments: Sequence[str]) -> None:
        self.folder = folder
        self._script = [str(SCRIPTS / script), str(folder / "stamps"), *arguments]
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> ColdJob:
        self.folder.mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        while sweep(self.folder):
            time.sleep(_LOOK_S)
        for process in self._processes:
            process.wait()

    def resize(self, workers: int) -> None:
        """Go on with so many workers."""
        raise NotImplementedError

    def laps(self) -> list[Lap]:
        """The steps so far as rank 0 saw them."""
        return leader_laps(read_diaries(self.folder / "stamps"))

    def settled(self, workers: int, steps: int) -> None:
        """Wait until so many workers have made some steps."""
        give_up_s = time.monotonic() + PATIENCE_S
        while not (
            len(newest := self.laps()[-steps:]) == steps and all(lap.world == workers for lap in newest)
        ):
            if time.monotonic() > give_up_s:
                raise Stuck(f"{self.folder}: {workers} workers do not train; {self._words()}")
            time.sleep(_LOOK_S)

    def _start(self, command: Sequence[str], **variables: str) -> None:
        with (self.folder / f"process{len(self._processes)}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=environment(ELASTANE_RUN=str(self.folder / "run"), **variables),
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                )
            )

    def _words(self) -> str:
        tails = [
            (log.name, log.read_text(errors="replace").splitlines()[-1:])
            for log in sorted(self.folder.glob("process*.log"))
        ]
        return "; ".join(f"{name}: {lines[0]}" for name, lines in tails if lines)


class StaticGroup(ColdJob):
    """SIGTERM makes the script save and end; then as many fresh processes as wanted."""

    def resize(self, workers: int) -> None:
        """Stop all, start all."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(PATIENCE_S)
        self._processes.clear()
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(workers)}
        for rank in range(workers):
            self._start([sys.executable, *self._script], RANK=str(rank), LOCAL_WORLD_SIZE=str(workers), **where)


class TorchrunAgents(ColdJob):
    """Agents come and go; torchrun restarts all workers each time."""

    _port = 0

    def resize(self, workers: int) -> None:
        """Start agents, or stop the newest."""
        self._port = self._port or _free_port()
        agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:4", "--nproc-per-node=1"]
        agent += ["--max-restarts=100", f"--rdzv-endpoint=127.0.0.1:{self._port}", *_RENDEZVOUS]
        while len(self._processes) < workers:
            # PyTorch 2.13 hangs when an agent joins later, unless each round has a store of its own.
            self._start([*agent, *self._script], TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
        for process in self._processes[workers:]:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30.0)
        del self._processes[workers:]
