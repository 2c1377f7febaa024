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
ADAPTIVE = (
    "deep_lists", "negative_numbers", "pipe", "forged_end", "escape_without_mark", "stops_itself", "deaf",
    "half_character_at_end",
)  # fmt: skip
"""Tried as workers of the training library as well, where fork server and supervisor are their neighbours."""
APART = (
    "forged_end",
    "planted_attempt",
    "pipe",
    "link_to_zero",
    "escape_without_mark",
    "kills_parent",
    "deep_lists",
)
"""Tried as users of their own as well (``--jobs-as tenant``), where this is run by root."""
BOMB = "bomb2.yaml"


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


def own(scratch: Path, names: Sequence[str] = (), python: str = sys.executable) -> list[Poison]:
    """Those of ``scripts/poisons``."""
    return [Poison(name, _words(scratch, name, name, python)) for name in names or tuple(DEEDS)]


def adaptive(scratch: Path, names: Sequence[str] = ADAPTIVE) -> list[Poison]:
    """Some of them, done by workers of adaptive jobs."""
    return [
        Poison(f"adaptive {name}", [*_words(scratch, name, f"adaptive {name}"), "adaptive"], "adaptive")
        for name in names
    ]


def _words(scratch: Path, deed: str, name: str, python: str = sys.executable) -> list[str]:
    return [python, str(SCRIPTS / "poison.py"), deed, str(scratch / name), f"{STAYS_S:g}"]


def innocent(scratch: Path, count: int) -> list[Poison]:
    """As many jobs that do nothing: what the machine costs by itself."""
    names = [f"nothing {number}" for number in range(count)]
    return [Poison(name, _words(scratch, "nothing", name)) for name in names]


def shared_folder() -> Path | None:
    """``$ELASTANE_SHARED/findings/poison``, if that is there."""
    folder = Path(os.environ.get("ELASTANE_SHARED", "../shared")) / "findings" / "poison"
    return folder.resolve() if folder.is_dir() else None


def shared(scratch: Path) -> list[Poison]:
    """Those of ``shared_folder``."""
    folder = shared_folder()
    if folder is None:
        return []
    found = [_shared(scratch, folder, "attack.py", what) for what in sorted(_RECORDS | _FILES)]
    for name in ("escape.py", "forge.py", "filler.py", "rot.py", "steal.py", "surr1.py", "surr2.py"):
        found.append(_shared(scratch, folder, name, ""))
    return [*found, _shared(scratch, folder, "forge.py", "adaptive")]


def _shared(scratch: Path, folder: Path, script: str, what: str) -> Poison:
    """Run where files lie as when it was written: all of a job's in one folder."""
    stem = script.removesuffix(".py")
    name = f"shared {what or stem}" if script == "attack.py" or not what else f"shared {stem} {what}"
    words = [sys.executable, str(SCRIPTS / "as_found.py"), str(folder / script), str(scratch / name)]
    trains = what == "adaptive" or script.startswith("surr")
    return Poison(name, [*words, what], "adaptive" if trains else "command")


def batches(poisons: Sequence[Poison], size: int) -> list[list[Poison]]:
    """Heavy ones by themselves, the rest in the given order."""
    heavy = [poison for poison in poisons if poison.name in HEAVY]
    light = [poison for poison in poisons if poison.name not in HEAVY]
    return [group[i : i + size] for group in (light, heavy) for i in range(0, len(group), size)]
