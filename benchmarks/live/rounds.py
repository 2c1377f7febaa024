"""What the control plane costs: 200 jobs of fake work on 64 slots, in real time.

The whole control plane is measured (hearing, deciding, storing, telling) with an engine that has no processes, so
what is left is its own work.  The engine's share is in the figures; it is small.
"""

from __future__ import annotations

import asyncio
import random
import resource
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figures
from elastane.cluster import Node
from elastane.service.control.plane import ControlPlane, ControlSettings
from elastane.service.gc_tuning import while_importing
from elastane.service.live_service import LiveService
from elastane.service.protocol import Principal
from elastane.service.store import Store
from elastane.testing.engines.fake_engine import FakeEngine
from elastane.testing.engines.fake_work import Delays

_JOBS, _NODES, _SLOTS = 200, 16, 4
_WARM_S, _MEASURED_S = 15.0, 30.0
_WHO = Principal("bench", "admin", "default")


class _Timed(ControlPlane):
    """A control plane that takes the time of its rounds."""

    decisions_ms: list[float]
    """Rounds in which something was decided."""
    cpu_ms: list[float]
    """What the same rounds used; far less than they took means that the machine was busy with something else."""

    async def round(self) -> None:
        before, began, used_s = self.rounds.count, time.perf_counter(), _cpu_s()
        await super().round()
        if self.rounds.count > before:
            self.decisions_ms.append((time.perf_counter() - began) * 1e3)
            self.cpu_ms.append((_cpu_s() - used_s) * 1e3)


def _spec(rng: random.Random) -> dict[str, object]:
    """Jobs of all characters, most of them longer than the measurement, some that come and go meanwhile."""
    seconds = rng.choice([20.0, 60.0, 600.0, 6000.0])
    command = rng.random() < 0.2
    return {
        "command": "python train.py",
        "kind": "command" if command else "adaptive",
        "workers": rng.randint(1, 2) if command else {"min": 1, "max": rng.choice([4, 8, 16])},
        "env": {
            "FAKE_SAMPLES": str(seconds * 100.0),
            "FAKE_BATCH": "64",
            "FAKE_SYNC_S": str(rng.uniform(0.005, 0.05)),
        },
    }


async def _measure(home: Path) -> tuple[_Timed, float, int]:
    """(the control plane with its times, share of a core, jobs still live) over the measured time."""
    rng = random.Random(1)
    engine = FakeEngine((Node(f"n{i:02}", _SLOTS, "cpu") for i in range(_NODES)), delays=Delays())
    plane = _Timed(ControlSettings(home, interval_s=5.0), Store.open(home / "elastane.db"), engine)
    plane.decisions_ms, plane.cpu_ms = [], []
    service = LiveService(plane)
    await plane.open()

    async def keep_busy(seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            specs = [_spec(rng) for _ in range(_JOBS - len(plane.live))]
            await asyncio.gather(*(service.submit(_WHO, spec, "/tmp", None) for spec in specs))
            await asyncio.sleep(0.5)

    try:
        await keep_busy(_WARM_S)
        plane.decisions_ms.clear()
        plane.cpu_ms.clear()
        began_s, used_s = time.monotonic(), _cpu_s()
        await keep_busy(_MEASURED_S)
        share = (_cpu_s() - used_s) / (time.monotonic() - began_s)
        return plane, share, len(plane.live)
    finally:
        await plane.close(leave_running=True)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rounds(figures: Figures) -> None:
    """Round time and share of a core."""
    with while_importing():  # all is imported by now; as in a process that ``elastane up`` starts
        pass
    with tempfile.TemporaryDirectory() as home:
        plane, share, live = asyncio.run(_measure(Path(home)))
    taken_ms, cpu_ms = plane.decisions_ms, plane.cpu_ms
    slots = _NODES * _SLOTS
    figures.note(f"{live} jobs on {slots} slots, {len(taken_ms)} rounds in {_MEASURED_S:g} s")
    figures.note(f"CPU of a round: median {statistics.median(cpu_ms):.0f} ms, largest {max(cpu_ms):.0f} ms")
    p99 = sorted(taken_ms)[max(0, round(0.99 * len(taken_ms)) - 1)]
    figures.at_most("live: round, median", statistics.median(taken_ms), 100.0, "gate", "ms")
    figures.at_most("live: round, p99", p99, 100.0, "gate", "ms")
    figures.at_most("live: control plane, share of a core", share, 0.10, "gate")


def main() -> None:
    """``python -m benchmarks.live.rounds``."""
    figures = Figures("live_rounds")
    rounds(figures)
    figures.finish()


if __name__ == "__main__":
    main()
