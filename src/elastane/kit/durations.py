"""``duration`` writes a length of time, everywhere the same: ``25 ms``, ``1.2 s``, ``45 s``, ``3.2 min``, ``12 d``."""

from __future__ import annotations

import math

_UNITS = (
    (86400.0, "d", 129_600.0),
    (3600.0, "h", 5400.0),
    (60.0, "min", 90.0),
    (1.0, "s", 0.9995),
    (1e-3, "ms", 0.9995e-3),
    (1e-6, "µs", 0.0),
)
"""Seconds of a unit, its name, and from which length on it is used: so that figures read from about 1.5 to 90."""

_NOTHING_S = 5e-8
"""What is shorter would be written as ``0.0 µs``."""


def unit_for(seconds: float) -> tuple[float, str]:
    """The unit in which people would say a length of time: its seconds, and its name."""
    return next((scale, name) for scale, name, least in _UNITS if seconds >= least)


def duration(seconds: float) -> str:
    """A length of time with two digits, and whole numbers in full; a question mark for what is not finite.

    >>> duration(192), duration(3723), duration(0.0254), duration(0.0)
    ('3.2 min', '62 min', '25 ms', '0 s')
    """
    if not math.isfinite(seconds):
        return "?"
    if seconds < _NOTHING_S:
        return "0 s"
    scale, name = unit_for(seconds)
    value = seconds / scale
    figure = f"{value:.1f}".removesuffix(".0") if value < 9.95 else f"{value:,.0f}"
    return f"{figure} {name}"
