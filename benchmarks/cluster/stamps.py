"""Finds in the steps that workers wrote down when survivors trained again, and whether there is one history of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.train.timeline import Diary, read_diaries


@dataclass(frozen=True, slots=True)
class Step:
    """A step that a worker completed (monotonic seconds) as one of ``world``."""

    number: int
    worker: str
    end_s: float
    world: int


def steps_of(folder: Path) -> list[Step]:
    """Returns the steps of all workers of a job, in the order in which they were completed."""
    found = [
        Step(lap.step, diary.name.rpartition("-")[0], lap.end_s, lap.world)
        for diary in read_diaries(folder)
        for lap in diary.laps
    ]
    return sorted(found, key=lambda step: step.end_s)


def again_s(steps: Iterable[Step], survivors: Collection[str], at_s: float) -> float | None:
    """Returns how long after a loss survivors certainly trained again: the second step that they completed.

    The first may have been summed up before the loss.  None if there is no second one.
    """
    ends: dict[int, float] = {}
    for step in steps:
        if step.worker in survivors and step.end_s > at_s:
            ends.setdefault(step.number, step.end_s)
    return sorted(ends.values())[1] - at_s if len(ends) > 1 else None


def excess_s(steps: Iterable[Step], first: Collection[str], then: Collection[str]) -> float:
    """Returns the seconds without training when some workers took over from others: what is beyond a usual step."""
    ends = {worker: [step.end_s for step in steps if step.worker == worker] for worker in (*first, *then)}
    last_s = max(end_s for worker in first for end_s in ends[worker])
    begun_s = min(end_s for worker in then for end_s in ends[worker])
    usual = [b - a for worker in (*first, *then) for a, b in pairwise(ends[worker])]
    return max(0.0, begun_s - last_s - median(usual))


def longest_gap_s(steps: Iterable[Step], since_s: float, until_s: float) -> float:
    """Returns the longest time in which no step was completed by anybody, beyond what is usual between two of them."""
    ends: dict[int, float] = {}
    for step in steps:
        ends[step.number] = min(ends.get(step.number, step.end_s), step.end_s)
    moments = sorted(ends.values())
    usual_s = median(b - a for a, b in pairwise(moments))
    within = [max(a, since_s) for a in moments if a < until_s]
    gaps = [b - a for a, b in pairwise([*within, until_s]) if b > since_s]
    return max(0.0, max(gaps) - usual_s)


def trained_twice(steps: Iterable[Step]) -> int:
    """Counts steps that were completed by two sets of workers, or by one of them twice: a second history."""
    by_number: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        by_number[step.number].append(step)
    return sum(
        len({step.world for step in same}) > 1 or len({step.worker for step in same}) < len(same)
        for same in by_number.values()
    )


def trained_at_once(diaries: Iterable[Diary]) -> bool:
    """Tells whether a worker trained on after another one had stepped well behind it: then there were two histories.

    Those who train together are at most a step apart, and whoever goes on from a checkpoint does so when all others
    are gone.
    """
    there = [diary.laps for diary in diaries if diary.laps]
    for ahead in there:
        ends = [lap.end_s for lap in ahead]
        for behind in there:
            for lap in behind if behind is not ahead else ():
                done = bisect_right(ends, lap.end_s)
                if 0 < done < len(ahead) and ahead[done - 1].step > lap.step + 1:
                    return True
    return False


def out_of_order(names: Sequence[tuple[str, float]]) -> int:
    """Counts checkpoints (name, moment of writing) of a generation that others had followed when they were written."""
    newest, late = (0, 0), 0
    for name, _ in sorted(names, key=lambda each: each[1]):
        words = name.split("-")
        this = (int(words[1]), int(words[2]))
        late += this[0] < newest[0]
        newest = max(newest, this)
    return late


def late_checkpoints(folder: Path) -> int:
    """Counts them in every job's folder below this one."""
    found: dict[Path, list[tuple[str, float]]] = defaultdict(list)
    for path in folder.rglob("checkpoint-*.manifest"):
        found[path.parent].append((path.name, path.stat().st_mtime))
    return sum(map(out_of_order, found.values()))
