"""What every group of figures is given: where to print, where to write, and how much to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.figures import Figure, Figures


class TrainFigures(Figures):
    """Figures that may also have a lower limit."""

    def at_least(
        self, name: str, value: float, limit: float, kind: Literal["gate", "goal"], unit: str = ""
    ) -> None:
        """A value that must reach its limit."""
        self._add(Figure(name, value, f">= {limit:g} {unit}".strip(), kind, value >= limit))


@dataclass(frozen=True, slots=True)
class Bench:
    """One invocation; ``folder`` is its own and disappears afterwards."""

    figures: TrainFigures
    folder: Path
    quick: bool
    seed: int = 0

    def count(self, full: int, quick: int) -> int:
        """How often to repeat something."""
        return quick if self.quick else full
