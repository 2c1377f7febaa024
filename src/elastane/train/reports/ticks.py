"""Computes the ticks of logarithmic axes, as settings for plotly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def doubling_ticks(sizes: Sequence[int]) -> dict[str, Any]:
    """Returns ticks at powers of two, at most about six of them, for batch sizes."""
    if not sizes:
        return {}
    low, high = min(sizes).bit_length() - 1, (max(sizes) - 1).bit_length()
    every = -(-(high - low + 1) // 6)
    ticks = [2**power for power in range(low, high + 1, every)]
    return {"tickvals": ticks, "ticktext": [f"{tick:,}" for tick in ticks]}


def log_ticks(values: Sequence[float]) -> dict[str, Any]:
    """Returns ticks at round numbers on a logarithmic axis, the fewer per decade the more decades there are.

    Plotly's own labels would show only the first digit between decades; within a small part of one they are good,
    so nothing is returned there.
    """
    known = [value for value in values if value > 0.0]
    low, high = (math.log10(min(known)), math.log10(max(known))) if known else (0.0, 0.0)
    if high - low < 0.3:
        return {}
    decades = range(math.floor(low), math.ceil(high), 1 + int((high - low) / 6))
    ticks = [float(f"{digit}e{decade}") for decade in decades for digit in _digits(high - low)]
    return {"tickvals": ticks, "ticktext": [_short(tick) for tick in ticks]}


def _digits(decades: float) -> tuple[int, ...]:
    if decades > 3:
        return (1,)
    return (1, 3) if decades > 1.5 else (1, 2, 5) if decades > 0.7 else (1, 2, 3, 4, 6, 8)


def _short(tick: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tick >= size:
            return f"{tick / size:g}{letter}"
    return f"{tick:g}"
