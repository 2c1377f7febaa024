"""What a newcomer costs those who train, before it takes part: while it starts, and while it follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.harness import Bench
from benchmarks.train.live import LiveJob
from benchmarks.train.timeline import Diary, Lap, leader_laps, read_diaries, switches

BEFORE = {"small": 150, "large": 20}
"""Steps that tell what is usual before each change."""
AFTER = {"small": 20, "large": 4}
IMPORTS = "sklearn.datasets"
"""Something that a newcomer has to import by itself, as most scripts do: more than a second of work."""


@dataclass(frozen=True, slots=True)
class Join:
    """The leader's steps around one growth, by what the newcomers did meanwhile."""

    after: int
    before: Sequence[Lap]
    warming: Sequence[Lap]
    following: Sequence[Lap]
    asked_s: float
    switched_s: float

    @property
    def kept(self) -> float:
        """Steps per second from the spawn of the newcomers to the switch, over those before."""
        steps = len(self.warming) + len(self.following)
        before_s = self.before[-1].end_s - self.before[0].end_s
        return (steps / (self.switched_s - self.asked_s)) / ((len(self.before) - 1) / before_s)


def _periods_s(laps: Sequence[Lap]) -> list[float]:
    """From one end of a step to the next: whatever happens between steps counts."""
    return [b.end_s - a.end_s for a, b in pairwise(laps)]


def _joins(bench: Bench, task: str, path: tuple[int, ...], rounds: int) -> list[Join]:
    """Grow along ``path``, fall back to its beginning, and again."""
    folder = bench.folder / f"{task}-{path[-1]}"
    arguments = [str(folder / "stamps"), f"--task={task}", f"--imports={IMPORTS}"]
    asked = []
    with LiveJob("stepping.py", folder / "run", arguments, workers=path[0]) as job:
        for number in range(rounds):
            if number:
                job.resize(path[0])
            job.settled(path[0], BEFORE[task])
            for workers in path[1:]:
                asked.append((workers, job.resize(workers)))
                job.settled(workers, BEFORE[task] if workers != path[-1] else AFTER[task])
    diaries = read_diaries(folder / "stamps")
    return [_join(diaries, task, after, asked_s) for after, asked_s in asked]


def _join(diaries: Sequence[Diary], task: str, after: int, asked_s: float) -> Join:
    laps = leader_laps(diaries)
    last = next(s.last for s in switches(laps) if s.last.end_s > asked_s)
    ready = [d.notes["ready"] for d in diaries if d.notes["born"] > asked_s and "ready" in d.notes]
    follows_s = min(ready, default=last.end_s)
    old = [lap for lap in laps if lap.end_s <= asked_s and lap.world == last.world]
    return Join(
        after,
        old[-BEFORE[task] :],
        [lap for lap in laps if asked_s < lap.end_s <= min(follows_s, last.end_s)],
        [lap for lap in laps if follows_s < lap.end_s <= last.end_s],
        asked_s,
        last.end_s,
    )


def _beyond_ms(periods_s: Sequence[float], usual_s: float) -> float:
    """How far the longest step is beyond 120 % of the usual one."""
    return (max(periods_s) - 1.2 * usual_s) * 1e3


def snapshot(bench: Bench) -> None:
    """No step gets much longer while a newcomer is sent 300 MB of state."""
    worst_ms = []
    for join in _joins(bench, "large", (1, 2), bench.count(4, 1)):
        before = _periods_s(join.before)
        during = _periods_s([*(join.warming or join.before)[-1:], *join.following])
        usual_s = median(before)
        worst_ms.append(_beyond_ms(during, usual_s))
        bench.figures.note(
            f"1→2: median step {usual_s * 1e3:.0f} ms before, {median(during) * 1e3:.0f} ms in the "
            f"{len(during)} steps of following; longest {max(before) * 1e3:.0f} and {max(during) * 1e3:.0f} ms; "
            f"beyond 120 %: {_beyond_ms(before, usual_s):.0f} and {worst_ms[-1]:.0f} ms"
        )
    name = "longest step while a newcomer follows, beyond 120 % of the usual"
    bench.figures.at_most(f"{name} (median of {len(worst_ms)} joins)", median(worst_ms), 50.0, "gate", "ms")
    bench.figures.at_most(f"{name} (worst join)", max(worst_ms), 50.0, "goal", "ms")


def warmup(bench: Bench) -> None:
    """What running workers keep of their throughput while newcomers start, import, build and follow."""
    for task in ("small", "large"):
        kept: dict[int, list[float]] = {}
        for join in _joins(bench, task, (1, 2, 4), bench.count(4, 1)):
            kept.setdefault(join.after, []).append(join.kept)
            bench.figures.note(
                f"{task}, to {join.after}: {len(join.warming)} steps warming, {len(join.following)} following, "
                f"{join.switched_s - join.asked_s:.1f} s; {join.kept:.0%} of the throughput before"
            )
        name = f"{task}: throughput kept while a newcomer warms up"
        bench.figures.at_least(f"{name}, 1→2", median(kept[2]), 0.75, "gate")
        bench.figures.note(f"{name}, 2→4: {median(kept[4]):.2f} (two cores for four workers; no target)")
