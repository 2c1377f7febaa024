"""Runs small training scripts for real: worker processes, sockets, signals."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.supervisor import JobOptions, Supervisor
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Ended, Event, Resized, WorkerLost

SCRIPTS = Path(__file__).parent / "scripts"
PATIENCE_S = 240.0
"""A run that takes longer hangs; it is ended, and its processes with it."""
CHANGES = (
    Wish(3, "resize", 3, steps=True),
    Wish(0, "kill", settled=True),
    Wish(0, "resize", 1, settled=True),
)
"""A run grows to three workers, loses one, and goes on with one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind."""

    ended: Ended
    events: list[Event]
    run: Path

    @property
    def resized(self) -> list[Resized]:
        """Every change of members after the start."""
        return [e for e in self.events if isinstance(e, Resized) and e.kind != "start"]

    @property
    def lost(self) -> list[WorkerLost]:
        """Every worker that died."""
        return [e for e in self.events if isinstance(e, WorkerLost)]

    def log(self, worker: str = "w1") -> str:
        """What a worker printed."""
        return (self.run / "logs" / f"{worker}.log").read_text()

    @property
    def printed(self) -> list[str]:
        """What all workers printed, line by line."""
        return [line for path in self.run.glob("logs/w*.log") for line in path.read_text().splitlines()]


def train(
    script: Path | str,
    run: Path,
    *arguments: str,
    workers: int = 1,
    wishes: Sequence[Wish] = (),
    settings: Settings | None = None,
    mode: str = "fixed",
    seed: int = 0,
    preload: tuple[str, ...] = (),
) -> Outcome:
    """Run a script under a supervisor of its own until it ends."""
    path = SCRIPTS / script if isinstance(script, str) else script
    options = JobOptions(
        script=str(path),
        arguments=arguments,
        run=run,
        settings=settings or Settings(workers=workers),
        environment={"ELASTANE_MODE": mode},
        directory=run.parent,
        wishes=tuple(wishes),
        seed=seed,
        preload=preload,
    )
    supervisor = Supervisor(options, lambda _: None, lambda _: None)

    async def run_to_the_end() -> Ended:
        watch = asyncio.create_task(_allow_the_end(supervisor, run))
        try:
            return await asyncio.wait_for(supervisor.run(), PATIENCE_S)
        finally:
            watch.cancel()

    return Outcome(asyncio.run(run_to_the_end()), load_run(run), run)


async def _allow_the_end(supervisor: Supervisor, run: Path) -> None:
    """Scripts train on until RUN/enough exists: however slow this machine is, every wish comes true before."""
    while not (supervisor.granted_all and supervisor.settled):
        await asyncio.sleep(0.02)
    (run / "enough").touch()


def alone(script: Path | str, run: Path, *arguments: str, mode: str = "fixed") -> list[str]:
    """The same script as a plain Python program; what it printed."""
    environment = {**os.environ, "ELASTANE_MODE": mode, "ELASTANE_RUN": str(run), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), *arguments],
        cwd=run.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def numbers(path: Path) -> list[float]:
    """What a script wrote, as numbers."""
    return [float(value) for value in path.read_text().split()]


def processes_of(run: Path) -> list[int]:
    """Processes that still mention this run in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(run).encode() in environment:
                found.append(int(entry.name))
    return found
