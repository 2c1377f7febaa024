"""Makes damaged inputs one after the other, runs their verbs, and keeps what broke a promise."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.inputs.judging import faults, placed
from benchmarks.inputs.mutations import mutated
from benchmarks.inputs.running import Ran, run
from benchmarks.inputs.samples import Kind, kinds

WHOLE = "whole"
GROUPS = tuple(dict.fromkeys(kind.group for kind in kinds()))


@dataclass(frozen=True, slots=True)
class Case:
    """One input: valid files of which one is spoiled, all of it told by the number."""

    number: int
    kind: Kind
    target: str
    mutation: str
    data: bytes

    @property
    def label(self) -> str:
        """As a report names it."""
        return f"case {self.number}, {self.kind.name}, {self.target}: {self.mutation}"


@dataclass(slots=True)
class Tally:
    """What became of all of them."""

    counts: Counter[str] = field(default_factory=Counter)
    by_group: Counter[str] = field(default_factory=Counter)
    broken: dict[str, list[str]] = field(default_factory=dict)
    longest: tuple[float, str] = (0.0, "")
    largest: tuple[float, str] = (0.0, "")

    def take(self, case: Case, ran: Ran) -> list[str]:
        """One result; returns the promises it broke."""
        self.counts["refused" if ran.code == 2 else "accepted"] += 1
        self.counts["refused with a place in the file"] += placed(ran)
        self.by_group[case.kind.group] += 1
        self.longest = max(self.longest, (ran.seconds, case.label))
        self.largest = max(self.largest, (ran.peak_mb, case.label))
        found = list(faults(case.kind, case.target, ran, whole=case.mutation == WHOLE))
        last = ran.err.strip().rpartition("\n")[2][:300]
        for fault in found:
            self.broken.setdefault(fault, []).append(f"{case.label}: exit {ran.code}, {last!r}")
        return found


def case(number: int, seed: int, chosen: Sequence[Kind]) -> Case:
    """Case ``number`` of a seed, the same whenever it is asked for.  The first round of kinds is left as it is."""
    chance = random.Random(f"{seed}/{number}")
    kind = chosen[number % len(chosen)]
    target = chance.choice(kind.targets)
    data = kind.files[target].encode()
    data, name = (data, WHOLE) if number < len(chosen) else mutated(chance, data)
    return Case(number, kind, target, name, data)


def try_all(
    numbers: Sequence[int], seed: int, chosen: Sequence[Kind], folder: Path, told: Callable[[], None]
) -> Tally:
    """Run them; inputs that broke a promise stay in ``folder``/faults."""
    tally = Tally()
    surroundings(folder)
    for number in numbers:
        each, place = case(number, seed, chosen), folder / f"case-{number}"
        put(each, place)
        if tally.take(each, run(each.kind.command, place)):
            kept = folder / "faults" / place.name
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(place, kept)
        shutil.rmtree(place)
        told()
    return tally


def surroundings(folder: Path) -> None:
    """Nothing of the user's is read or written, and no service is found."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("HOME", "XDG_CACHE_HOME", "ELASTANE_HOME"):
        os.environ[name] = str(folder / "home")
    os.environ["ELASTANE_URL"] = "http://127.0.0.1:9"
    os.environ["COLUMNS"] = "200"


def put(case: Case, place: Path) -> None:
    """Write the files of a case."""
    for name, text in case.kind.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case.data if name == case.target else text.encode())
