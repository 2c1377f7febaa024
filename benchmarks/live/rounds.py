"""What the control plane costs: 200 jobs of fake work on 64 slots, in real time, and larger clusters on request.

``--nodes 200 --jobs 1000`` measures another size against the gates of many machines: 250 ms per round on up to 200
nodes, 1 s beyond.  ``--profile FILE`` writes where the time of all rounds went.  ``--steps N`` makes so many rounds in
a time of its own, a second apart, and counts CPU: what it says hardly depends on what else the machine does.

The whole control plane is measured (hearing, deciding, storing, telling) with an engine that has no processes, so
what is left is its own work.  The engine's share is in the figures; it is small.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import math
import random
import resource
import statistics
import tempfile
import time
from dataclasses import dataclass
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

_SLOTS = 4
_WARM_S, _MEASURED_S = 15.0, 30.0


@dataclass(frozen=True)
class Size:
    """A cluster, and how long it is watched."""

    nodes: int = 16
    jobs: int = 200
    types: int = 1
    warm_s: float = _WARM_S
    measured_s: float = _MEASURED_S
    policy: str = "elastane"

    @property
    def gate_ms(self) -> float:
        """What a round may take."""
        return 250.0 if self.nodes <= 200 else 1000.0


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


async def _measure(home: Path, size: Size, profile: cProfile.Profile | None) -> tuple[_Timed, float, int]:
    """(the control plane with its times, share of a core, jobs still live) over the measured time."""
    rng = random.Random(1)
    engine = FakeEngine(_nodes(size), delays=Delays())
    settings = ControlSettings(home, size.policy, interval_s=5.0)
    plane = _Timed(settings, Store.open(home / "elastane.db"), engine)
    plane.decisions_ms, plane.cpu_ms = [], []
    service = LiveService(plane)
    await plane.open()

    async def keep_busy(seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            specs = [_spec(rng) for _ in range(size.jobs - len(plane.live))]
            await asyncio.gather(*(service.submit(_WHO, spec, "/tmp", None) for spec in specs))
            await asyncio.sleep(0.5)

    try:
        await keep_busy(size.warm_s)
        plane.decisions_ms.clear()
        plane.cpu_ms.clear()
        began_s, used_s = time.monotonic(), _cpu_s()
        if profile is not None:
            profile.enable()
        await keep_busy(size.measured_s)
        if profile is not None:
            profile.disable()
        share = (_cpu_s() - used_s) / (time.monotonic() - began_s)
        return plane, share, len(plane.live)
    finally:
        await plane.close(leave_running=True)


async def _step(home: Path, size: Size, steps: int) -> tuple[list[float], list[float]]:
    """CPU of the second half of so many rounds, in ms: of those that decided, and of those that only heard."""
    rng, now_s = random.Random(1), [1000.0]
    engine = FakeEngine(_nodes(size), lambda: now_s[0], Delays())
    settings = ControlSettings(home, size.policy, interval_s=5.0, patience_s=600.0)
    store = Store.open(home / "elastane.db", lambda: now_s[0])
    plane = ControlPlane(settings, store, engine, lambda: now_s[0])
    service = LiveService(plane)
    await plane.take_up()
    decided, quiet = list[float](), list[float]()
    for step in range(steps):
        specs = [_spec(rng) for _ in range(size.jobs - len(plane.live))]
        await asyncio.gather(*(service.submit(_WHO, spec, "/tmp", None) for spec in specs))
        now_s[0] += 1.0
        before, used_s = plane.rounds.count, _cpu_s()
        await plane.round()
        if 2 * step >= steps:
            (decided if plane.rounds.count > before else quiet).append((_cpu_s() - used_s) * 1e3)
    await plane.close(leave_running=True)
    return decided, quiet


def stepped(figures: Figures, size: Size, steps: int) -> None:
    """CPU of rounds, whatever else the machine does."""
    with tempfile.TemporaryDirectory() as home:
        decided, quiet = asyncio.run(_step(Path(home), size, steps))
    figures.note(
        f"{size.jobs} jobs on {size.nodes} nodes: {len(decided)} rounds that decided, {len(quiet)} that heard"
    )
    if quiet:
        figures.note(f"CPU of a round that only hears: median {statistics.median(quiet):.0f} ms")
    figures.at_most("live: CPU of a round, median", statistics.median(decided), size.gate_ms, "gate", "ms")
    figures.note(f"largest {max(decided):.0f} ms")


def _nodes(size: Size) -> list[Node]:
    kinds = ["cpu"] if size.types == 1 else [f"gpu{i}" for i in range(size.types)]
    return [Node(f"n{i:04}", _SLOTS, kinds[i % len(kinds)]) for i in range(size.nodes)]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rounds(figures: Figures, size: Size | None = None, profile: cProfile.Profile | None = None) -> None:
    """Round time and share of a core."""
    usual = size is None
    size = size or Size()
    with while_importing():  # all is imported by now; as in a process that ``elastane up`` starts
        pass
    with tempfile.TemporaryDirectory() as home:
        plane, share, live = asyncio.run(_measure(Path(home), size, profile))
    taken_ms, cpu_ms = plane.decisions_ms or [math.inf], plane.cpu_ms or [math.inf]
    slots, where = size.nodes * _SLOTS, f"{size.nodes} nodes"
    figures.note(f"{live} jobs on {slots} slots, {where}: {len(taken_ms)} rounds in {size.measured_s:g} s")
    figures.note(f"CPU of a round: median {statistics.median(cpu_ms):.0f} ms, largest {max(cpu_ms):.0f} ms")
    p99 = sorted(taken_ms)[max(0, round(0.99 * len(taken_ms)) - 1)]
    gate_ms, gate_share = (100.0, 0.10) if usual else (size.gate_ms, 0.25)
    figures.at_most("live: round, median", statistics.median(taken_ms), gate_ms, "gate", "ms")
    if usual:
        figures.at_most("live: round, p99", p99, gate_ms, "gate", "ms")
    else:
        figures.note(f"p99 {p99:.0f} ms")
    figures.at_most("live: control plane, share of a core", share, gate_share, "gate")


def main() -> None:
    """``python -m benchmarks.live.rounds [--nodes N --jobs N --types N]``."""
    parser = argparse.ArgumentParser(description="round time of the control plane")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--types", type=int, default=1, help="accelerator types of the nodes")
    parser.add_argument("--policy", default="elastane")
    parser.add_argument("--seconds", type=float, default=_MEASURED_S)
    parser.add_argument("--steps", type=int, help="count the CPU of so many rounds in a time of their own")
    parser.add_argument("--profile", type=Path, help="write a profile of the measured time (pstats)")
    asked = parser.parse_args()
    size = None
    if asked.nodes is not None or asked.jobs is not None:
        usual = Size()
        size = Size(
            asked.nodes or usual.nodes,
            asked.jobs or usual.jobs,
            asked.types,
            _WARM_S,
            asked.seconds,
            asked.policy,
        )
    profile = cProfile.Profile() if asked.profile else None
    figures = Figures("live_rounds")
    if asked.steps:
        stepped(figures, size or Size(), asked.steps)
    else:
        rounds(figures, size, profile)
    if profile is not None:
        profile.dump_stats(asked.profile)
    figures.finish()


if __name__ == "__main__":
    main()
