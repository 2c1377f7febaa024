"""Figures against targets: gates must hold, goals are where we want to be."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Figure:
    """One measured value with its target."""

    name: str
    value: float
    target: str
    kind: Literal["gate", "goal", "not judged"]
    ok: bool


class Figures:
    """Collects figures, prints each at once, and ends the process as they deserve."""

    def __init__(self, name: str, folder: Path = Path("build/bench")) -> None:
        self.name, self.folder = name, folder
        self.all: list[Figure] = []

    def at_most(
        self, name: str, value: float, limit: float, kind: Literal["gate", "goal"], unit: str = ""
    ) -> None:
        """A value that must not exceed its limit."""
        self._add(Figure(name, value, f"<= {limit:g} {unit}".strip(), kind, value <= limit))

    def at_least(
        self, name: str, value: float, limit: float, kind: Literal["gate", "goal"], unit: str = ""
    ) -> None:
        """A value that must reach its limit."""
        self._add(Figure(name, value, f">= {limit:g} {unit}".strip(), kind, value >= limit))

    def within(
        self, name: str, value: float, reference: float, tolerance: float, kind: Literal["gate", "goal"]
    ) -> None:
        """A value that must lie within a relative tolerance of a published one."""
        ok = abs(value / reference - 1.0) <= tolerance
        self._add(Figure(name, value, f"{reference:g} ± {tolerance:.0%}", kind, ok))

    def not_judged(self, name: str, value: float, limit: float, why: str, unit: str = "") -> None:
        """A value beyond its limit for which something else is to blame: neither held nor missed."""
        self._add(
            Figure(f"{name} (not judged: {why})", value, f"<= {limit:g} {unit}".strip(), "not judged", False)
        )

    def note(self, text: str) -> None:
        """Something worth reading that has no target."""
        print(f"       {text}", flush=True)

    def _add(self, figure: Figure) -> None:
        self.all.append(figure)
        mark = "ok  " if figure.ok else {"gate": "MISS", "goal": "far ", "not judged": "----"}[figure.kind]
        print(f"{mark}  {figure.kind}  {figure.name}: {figure.value:.4g}  (target {figure.target})", flush=True)

    def finish(self) -> None:
        """Write ``NAME.json`` into the folder, and exit non-zero if a gate was missed."""
        path = self.folder / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(figure) for figure in self.all], indent=2) + "\n", encoding="utf-8")
        missed = [figure.name for figure in self.all if figure.kind == "gate" and not figure.ok]
        print(f"{len(self.all)} figures in {path}; gates missed: {', '.join(missed) or 'none'}")
        if unknown := [figure.name for figure in self.all if figure.kind == "not judged"]:
            print(f"NOT JUDGED: {', '.join(unknown)}")
        sys.exit(1 if missed else 0)


def shared_data(*parts: str) -> Path:
    """A path under ``$ELASTANE_SHARED`` (default ``../shared``); ends the process clearly when it is missing."""
    path = Path(os.environ.get("ELASTANE_SHARED", "../shared")).joinpath(*parts)
    if not path.exists():
        sys.exit(f"benchmark data missing: {path} (set ELASTANE_SHARED to the directory that holds data/)")
    return path
