"""The hostile jobs that are tried, and in which company: one batch runs beside the others' jobs at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.live.jobs import SCRIPTS
from benchmarks.live.scripts.poisons import folders, journals, ports, processes, records, substitutes
from benchmarks.live.scripts.poisons.place import DEEDS
from benchmarks.train.live import ROOT

__all__ = ["folders", "journals", "ports", "processes", "records", "substitutes"]

STAYS_S = 240.0
"""How long a hostile job would go on if nobody ended it."""
HEAVY = (
    "two_gb_line",
    "huge_members",
    "huge_plans",
    "many_events",
    "growing_line",
    "shared hugeline",
    "shared lots",
)
"""Tried apart: beside gigabytes an answer may take longer."""
QUICK = (
    "deep_lists", "negative_numbers", "wrong_types", "pipe", "link_to_zero", "forged_end", "ends_of_wrong_types",
    "lock_that_is_a_folder", "no_records", "planted_attempt", "run_that_is_a_link", "hundreds_of_children",
    "stops_its_attempt", "half_character_at_end", "junk_for_agents",
)  # fmt: skip
_RECORDS = {
    "deep",
    "deepobj",
    "digits",
    "surrogate",
    "resurr",
    "stepbig",
    "stepneg",
    "stepzero",
    "stepnan",
    "stepinf",
}
_RECORDS |= {
    "atbig",
    "resized",
    "resizedat",
    "fitted",
    "lots",
    "hugeline",
    "fifo",
    "devzero",
    "members",
    "members2",
}
_RECORDS |= {
    "membersdeep",
    "ended",
    "ended2",
    "ended3",
    "ended4",
    "endedcode",
    "control",
    "controldeep",
    "plans",
}
_RECORDS |= {"plansdeep"}
_FILES = {"logdir", "w9"}


@dataclass(frozen=True, slots=True)
class Poison:
    """One hostile job."""

    name: str
    command: Sequence[str]
    kind: str = "command"

    def spec(self) -> Mapping[str, Any]:
        """As it is handed in."""
        return {
            "name": self.name.replace(" ", "-"),
            "command": list(self.command),
            "kind": self.kind,
            "workers": 1,
            "retries": 0,
            "env": {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        }


def own(scratch: Path, names: Sequence[str] = ()) -> list[Poison]:
    """Those of ``scripts/poisons``."""
    script = str(SCRIPTS / "poison.py")
    return [
        Poison(name, [sys.executable, script, name, str(scratch / name), f"{STAYS_S:g}"])
        for name in names or tuple(DEEDS)
    ]


def innocent(scratch: Path, count: int) -> list[Poison]:
    """As many jobs that do nothing: what the machine costs by itself."""
    script = str(SCRIPTS / "poison.py")
    names = [f"nothing {number}" for number in range(count)]
    return [Poison(n, [sys.executable, script, "nothing", str(scratch / n), f"{STAYS_S:g}"]) for n in names]


def shared(scratch: Path) -> list[Poison]:
    """Those of ``$ELASTANE_SHARED/findings/poison``, if that is there."""
    folder = Path(os.environ.get("ELASTANE_SHARED", "../shared")) / "findings" / "poison"
    if not folder.is_dir():
        return []
    found = [_shared(scratch, folder, "attack.py", what) for what in sorted(_RECORDS | _FILES)]
    for name in ("escape.py", "forge.py", "filler.py", "rot.py", "steal.py", "surr1.py", "surr2.py"):
        found.append(_shared(scratch, folder, name, ""))
    return found


def _shared(scratch: Path, folder: Path, script: str, what: str) -> Poison:
    """Run where files lie as when it was written: all of a job's in one folder."""
    name = f"shared {what or script.removesuffix('.py')}"
    words = [sys.executable, str(SCRIPTS / "as_found.py"), str(folder.resolve() / script), str(scratch / name)]
    return Poison(name, [*words, what], "adaptive" if script.startswith("surr") else "command")


def batches(poisons: Sequence[Poison], size: int) -> list[list[Poison]]:
    """Heavy ones by themselves, the rest in the given order."""
    heavy = [poison for poison in poisons if poison.name in HEAVY]
    light = [poison for poison in poisons if poison.name not in HEAVY]
    return [group[i : i + size] for group in (light, heavy) for i in range(0, len(group), size)]
