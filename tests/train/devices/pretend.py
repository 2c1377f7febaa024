"""Runs training scripts whose processes have pretend GPUs: real workers, sockets and signals, one device to each."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import elastane
from elastane.train.coordinator.own_devices import OwnDevices
from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.supervisor import JobOptions, Supervisor
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Ended
from elastane.train.transport_choice import TransportWish
from fakegpu import build
from fakegpu.lacking import without
from train.running import Outcome, _allow_the_end

PATIENCE_S = 100.0
"""A run that takes longer hangs; it is ended, and its processes with it."""
HERE = Path(__file__).parent
TESTS = HERE.parent.parent
_SITE = """
import os
os.environ.update({variables!r})
import pretend_start
"""


@dataclass(frozen=True)
class Machine:
    """A machine with pretend GPUs."""

    devices: int = 4
    policy: str = "late"
    memory_mb: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self, folder: Path) -> dict[str, str]:
        """For every process of a job on it: a fork server is born with little but its ``PYTHONPATH``."""
        memory = {"FAKEGPU_MEMORY_MB": str(self.memory_mb)} if self.memory_mb else {}
        variables = {
            "FAKEGPU_COUNT": str(self.devices),
            "FAKEGPU_POLICY": self.policy,
            **memory,
            **self.variables,
        }
        site = folder / "site"
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(_SITE.format(variables=variables))
        own = Path(elastane.__file__).parents[1]
        return {"PYTHONPATH": f"{site}:{own}:{TESTS}:{TESTS / 'train'}:{HERE}", **variables}

    @property
    def names(self) -> tuple[str, ...]:
        """The devices, as ``elastane train`` knows them."""
        return tuple(f"fake:{number}" for number in range(self.devices))


def needs_pretend_gpu() -> None:
    """Skip the test, with the reason, where the pretend device cannot be built."""
    try:
        build.extension()
    except build.CannotBuild as reason:
        without(reason)


def train(
    script: Path,
    run: Path,
    *arguments: str,
    machine: Machine = Machine(),
    workers: int = 1,
    wishes: Sequence[Wish] = (),
    mode: str = "consistent",
    transport: TransportWish = TransportWish.STAGED,
    preload: tuple[str, ...] = (),
    shared: bool = False,
    seed: int = 0,
    drive: Callable[[Supervisor], Awaitable[None]] | None = None,
    patience_s: float = PATIENCE_S,
) -> Outcome:
    """Run a script under a supervisor of its own until it ends; ``drive`` may do to it what wishes cannot say."""
    needs_pretend_gpu()
    (run.parent / "locks").mkdir(exist_ok=True)
    devices = OwnDevices(machine.names, shared, run.parent / "locks")
    options = JobOptions(
        script=str(script),
        arguments=arguments,
        run=run,
        settings=Settings(
            workers=workers, max_workers=devices.most_workers, transport=transport, max_deaths=30
        ),
        environment={"ELASTANE_MODE": mode, **machine.environment(run.parent)},
        directory=run.parent,
        wishes=tuple(wishes),
        preload=preload,
        devices=devices,
        seed=seed,
    )
    supervisor = Supervisor(options, lambda _: None, lambda _: None)

    async def run_to_the_end() -> Ended:
        async def disturb() -> None:
            if drive is not None:
                await drive(supervisor)
            await _allow_the_end(supervisor, run)

        watch = asyncio.create_task(disturb())
        job = asyncio.create_task(asyncio.wait_for(supervisor.run(), patience_s))
        watch.add_done_callback(lambda done: done.cancelled() or not done.exception() or job.cancel())
        try:
            return await job
        except asyncio.CancelledError:
            await watch  # it says why
            raise
        finally:
            watch.cancel()

    return Outcome(asyncio.run(run_to_the_end()), load_run(run), run)


def alone(
    script: Path, folder: Path, *arguments: str, mode: str = "consistent", patience_s: float = PATIENCE_S
) -> list[str]:
    """The same script as a plain program on the CPU; what it printed."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {"ELASTANE_MODE": mode, "ELASTANE_RUN": str(folder / "run"), "ELASTANE_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, **own, "PYTHONPATH": f"{TESTS}:{TESTS / 'train'}", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patience_s,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()
