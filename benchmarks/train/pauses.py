"""How long survivors stand still at 1→2→4→3: shadow join, plain copy, and two ways of starting again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from benchmarks.harness import Bench
from benchmarks.train.cold import ColdJob, StaticGroup, TorchrunAgents
from benchmarks.train.live import LiveJob
from benchmarks.train.timeline import Diary, Switch, read_diaries, switches
from elastane.train.reports.events import Resized

PATH = (1, 2, 4, 3)
CHANGES = frozenset(pairwise(PATH))
STEPS = {"small": 30, "large": 8}
"""Steps at each size, so that what is normal there is known."""
FINEST_S = 1e-4
"""Shorter pauses count as this long: scheduling alone varies as much."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Every wanted switch of one way to resize, as the leader and as the slowest survivor saw it."""

    switches: Sequence[Switch]
    slowest_s: Sequence[float]
    told_s: Sequence[float] = ()
    """What the library itself reported."""

    @property
    def median_s(self) -> float:
        """Over all of them."""
        return median(s.pause_s for s in self.switches)

    @property
    def by_change(self) -> Mapping[tuple[int, int], list[Switch]]:
        """The same, by what changed."""
        table: dict[tuple[int, int], list[Switch]] = defaultdict(list)
        for switch in self.switches:
            table[switch.before, switch.after].append(switch)
        return table


def _wanted(found: Iterable[Switch]) -> list[Switch]:
    return [switch for switch in found if (switch.before, switch.after) in CHANGES]


def _seen_by_all(diaries: Sequence[Diary]) -> tuple[list[Switch], list[float]]:
    """The leader's switches, and for each the longest pause that any survivor saw."""
    leader: list[Switch] = []
    slowest: dict[int, float] = defaultdict(float)
    for diary in diaries:
        for switch in _wanted(switches(diary.laps)):
            slowest[switch.last.step] = max(slowest[switch.last.step], switch.pause_s)
            if switch.last.rank == 0:
                leader.append(switch)
    return leader, [slowest[switch.last.step] for switch in leader]


def _live(bench: Bench, task: str, cycles: int, *, shadow: bool) -> Pauses:
    folder = bench.folder / f"{task}-{'shadow' if shadow else 'copy'}"
    options = [] if shadow else ["--no-shadow"]
    script = ("stepping.py", folder / "run", [str(folder / "stamps"), f"--task={task}"])
    with LiveJob(*script, options=options) as job:
        job.settled(PATH[0], STEPS[task])
        for cycle in range(cycles):
            for workers in PATH if cycle else PATH[1:]:
                job.resize(workers)
                job.settled(workers, STEPS[task])
        events = job.events()
    leader, slowest = _seen_by_all(read_diaries(folder / "stamps"))
    told = [e.pause_s for e in events if isinstance(e, Resized) and (e.before, e.after) in CHANGES]
    return Pauses(leader, slowest, told)


def _cold(bench: Bench, kind: type[ColdJob], task: str, rounds: int, *arguments: str) -> Pauses:
    found: list[Switch] = []
    for number in range(rounds):
        folder = bench.folder / f"{task}-{kind.__name__}-{number}"
        with kind("stepping.py", folder, [f"--task={task}", *arguments]) as job:
            for workers in PATH:
                job.resize(workers)
                job.settled(workers, STEPS[task])
            found += _wanted(switches(job.laps()))
    return Pauses(found, [s.pause_s for s in found])


def _describe(bench: Bench, name: str, pauses: Pauses) -> None:
    for (before, after), found in sorted(pauses.by_change.items()):
        pause_ms = median(s.pause_s for s in found) * 1e3
        excess_ms = median(s.excess_s for s in found) * 1e3
        usual_ms = median(s.first.duration_s - s.excess_s for s in found) * 1e3
        bench.figures.note(
            f"{name}, {before}→{after}: pause {pause_ms:.2f} ms (n={len(found)}); "
            f"first step after it {excess_ms:+.1f} ms on the usual {usual_ms:.0f} ms"
        )
    told = f"; the library told {median(pauses.told_s) * 1e3:.2f} ms" if pauses.told_s else ""
    bench.figures.note(
        f"{name}: median {pauses.median_s * 1e3:.2f} ms, longest seen by any survivor "
        f"{max(pauses.slowest_s) * 1e3:.1f} ms{told}"
    )


def _ratio(cold: Pauses, live: Pauses) -> float:
    return cold.median_s / max(live.median_s, FINEST_S)


def _ratio_with_excess(cold: Pauses, live: Pauses) -> float:
    """Counting what the first steps after the switch took longer, as if the pause were to blame for all of it."""

    def whole(pauses: Pauses) -> float:
        return median(s.pause_s + s.excess_s for s in pauses.switches)

    return whole(cold) / max(whole(live), FINEST_S)


def _slowest_change_s(pauses: Pauses) -> float:
    return max(median(s.pause_s for s in found) for found in pauses.by_change.values())


def pauses(bench: Bench) -> None:
    """All ways, then the ratios between them."""
    figures = bench.figures
    for task in ("small",) if bench.quick else ("small", "large"):
        cycles = bench.count(5 if task == "small" else 3, 1)
        ways = {
            "shadow": _live(bench, task, cycles, shadow=True),
            "copy": _live(bench, task, cycles, shadow=False),
            "cold restart": _cold(bench, StaticGroup, task, bench.count(2, 1)),
        }
        if task == "small":
            arguments = ("--deaf", "--checkpoint-every=1")
            ways["torchrun"] = _cold(bench, TorchrunAgents, task, bench.count(2, 1), *arguments)
        for way, found in ways.items():
            _describe(bench, f"{task}, {way}", found)
        for way, limit_ms in (("shadow", 20.0), ("copy", 150.0)):
            slowest_ms = _slowest_change_s(ways[way]) * 1e3
            kind: Literal["gate", "goal"] = "gate" if way == "shadow" or task == "small" else "goal"
            figures.at_most(f"{task}, {way}: median pause", ways[way].median_s * 1e3, limit_ms, kind, "ms")
            figures.at_most(f"{task}, {way}: slowest change's median", slowest_ms, limit_ms, "goal", "ms")
        for way, factor in (("shadow", 50.0), ("copy", 20.0)):
            for other in [name for name in ways if name not in ("shadow", "copy")]:
                figures.at_least(
                    f"{task}: {other} / {way}", _ratio(ways[other], ways[way]), factor, "gate", "×"
                )
                whole = _ratio_with_excess(ways[other], ways[way])
                figures.at_least(f"{task}: {other} / {way}, with the first step", whole, factor, "goal", "×")
