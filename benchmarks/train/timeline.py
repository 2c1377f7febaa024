"""Reads what training scripts wrote down (``scripts.stamping``) and finds the moments that matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

NEAR = 15
"""Steps before and after a switch that tell what is normal there."""


@dataclass(frozen=True, slots=True)
class Lap:
    """One optimizer step of one worker; seconds of the monotonic clock."""

    step: int
    begin_s: float
    end_s: float
    world: int
    rank: int

    @property
    def duration_s(self) -> float:
        """From the first line of the loop body to the end of the optimizer step."""
        return self.end_s - self.begin_s


@dataclass(slots=True)
class Diary:
    """Everything one process wrote."""

    name: str
    laps: list[Lap] = field(default_factory=list)
    notes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Switch:
    """Two successive steps of the leader with different numbers of workers between them.

    ``pause_s`` is the gap between them beyond the usual gap, ``excess_s`` what the first step after it took
    beyond the usual step of that many workers.
    """

    before: int
    after: int
    last: Lap
    first: Lap
    pause_s: float
    excess_s: float


def read_diaries(folder: Path) -> list[Diary]:
    """One diary per process, in order of birth; a line torn by a kill is left out."""
    diaries = []
    for path in folder.glob("*.txt"):
        diary = Diary(path.stem)
        for line in path.read_text().splitlines(keepends=True):
            what, *values = line.split()
            if not line.endswith("\n"):
                continue
            if what == "lap":
                step, begin, end, world, rank = values
                diary.laps.append(Lap(int(step), float(begin), float(end), int(world), int(rank)))
            else:
                diary.notes[what] = float(values[0])
        diaries.append(diary)
    return sorted(diaries, key=lambda diary: diary.notes.get("born", 0.0))


def leader_laps(diaries: Sequence[Diary]) -> list[Lap]:
    """The steps as rank 0 saw them, whoever that was."""
    return sorted((lap for d in diaries for lap in d.laps if lap.rank == 0), key=lambda lap: lap.end_s)


def switches(laps: Sequence[Lap]) -> list[Switch]:
    """Every change of the number of workers."""
    found = []
    for at, (last, first) in enumerate(pairwise(laps)):
        if last.world != first.world:
            found.append(_switch(laps, at, last, first))
    return found


def _switch(laps: Sequence[Lap], at: int, last: Lap, first: Lap) -> Switch:
    near = list(pairwise(laps[max(0, at - NEAR) : at + NEAR + 2]))
    gap_s = median(b.begin_s - a.end_s for a, b in near if a.world == b.world)
    later = [lap.duration_s for lap in laps[at + 2 : at + 2 + NEAR] if lap.world == first.world]
    usual_s = median(later) if later else first.duration_s
    return Switch(
        last.world,
        first.world,
        last,
        first,
        first.begin_s - last.end_s - gap_s,
        first.duration_s - usual_s,
    )
