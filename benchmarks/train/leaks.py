"""Two hundred changes of members in living processes: file descriptors and threads stay what they were.

Memory is only told: the donor's heap keeps the room of its largest backlog, though nothing in it is in use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.harness import Bench
from benchmarks.train.live import LiveJob

FEW, MANY = 2, 3
SETTLE = 10
"""Changes at the beginning that may still open something for good."""
SPREAD = 5
"""Values at either end of the row that are compared by their medians: a change may be caught half-way."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What one process holds."""

    descriptors: int
    threads: int
    memory_mb: float


def _holdings(pid: int) -> Holdings:
    process = Path("/proc") / str(pid)
    pages = int((process / "statm").read_text().split()[1])
    return Holdings(
        len(list((process / "fd").iterdir())),
        len(list((process / "task").iterdir())),
        pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
    )


def _growth(values: Sequence[float]) -> float:
    return median(values[-SPREAD:]) - median(values[:SPREAD])


def _survivors(status: Mapping[str, object]) -> dict[str, int]:
    workers, members = status["workers"], status["members"]
    assert isinstance(workers, Mapping)
    assert isinstance(members, list)
    return {name: int(workers[name]["pid"]) for name in members[:FEW]}


def leaks(bench: Bench) -> None:
    """Grow and shrink in turn, and look at the survivors whenever there are few."""
    changes = bench.count(200, 24)
    folder = bench.folder
    seen: dict[str, list[Holdings]] = {}
    arguments = [str(folder / "stamps"), "--task=small"]
    with LiveJob("stepping.py", folder / "run", arguments, workers=FEW) as job:
        survivors = _survivors(job.settled(FEW, 3))
        survivors["supervisor"] = job.pid
        for number in range(0, changes, 2):
            for workers in (MANY, FEW):
                job.resize(workers)
                generation = job.settled(workers, 1)["generation"]
            if number >= SETTLE:
                for name, pid in survivors.items():
                    seen.setdefault(name, []).append(_holdings(pid))
    bench.figures.note(f"{changes} changes, {FEW}→{MANY}→{FEW}, up to generation {generation}")
    for name, held in seen.items():
        first, last = held[0], held[-1]
        bench.figures.note(
            f"{name}: {first.descriptors} → {last.descriptors} descriptors, {first.threads} → {last.threads} "
            f"threads, {first.memory_mb:.0f} → {last.memory_mb:.0f} MB"
        )
        bench.figures.at_most(f"{name}: more descriptors", _growth([h.descriptors for h in held]), 1, "gate")
        bench.figures.at_most(f"{name}: more threads", _growth([h.threads for h in held]), 1, "gate")
