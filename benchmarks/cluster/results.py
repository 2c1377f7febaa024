"""Prints what was measured several times as one figure: the longest, against its gate, with the median beside it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.figures import Figures


def tell(
    figures: Figures, name: str, values: Sequence[float], limit: float | None = None, unit: str = "s"
) -> None:
    """Judge the longest of some times; without a limit they are only said."""
    if not values:
        figures.note(f"{name}: not measured")
        return
    words = f"median {median(values):.3g} {unit}, longest {max(values):.3g} {unit}, {len(values)} times"
    figures.note(f"{name}: {words}")
    if limit is not None:
        figures.at_most(f"{name}, longest", max(values), limit, "gate", unit)
