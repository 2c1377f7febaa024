"""Durations, sizes and bandwidths as people write them: ``90s``, ``1h30m``, ``16GB``, ``10Gbps``.

A bare number is already in the base unit: seconds, gigabytes, gigabits per second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from elastane.errors import ElastaneError
from elastane.jobs.problems import shown

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?\s*([a-z/]*)\s*", re.ASCII)
_LONGEST = 100  # characters; anything longer is not a quantity


@dataclass(frozen=True)
class Quantity:
    """One kind of quantity: the units it is written in and what to tell those who write something else.

    ``compound`` allows several parts in a row, as in ``1h30m``.
    """

    expected: str
    units: Mapping[str, float]
    compound: bool = False

    def read(self, written: object) -> float:
        """The amount in the base unit; never negative, never infinite."""
        amount = self._amount(written)
        if math.isfinite(amount) and amount >= 0:
            return amount
        raise ElastaneError(f"cannot read {shown(written)}; expected {self.expected}")

    def _amount(self, written: object) -> float:
        """The amount, or not-a-number for anything unreadable, so that ``read`` has one way to refuse."""
        if isinstance(written, int | float) and not isinstance(written, bool):
            try:
                return float(written)
            except OverflowError:
                return math.inf
        if not isinstance(written, str) or len(written) > _LONGEST:
            return math.nan
        return self._sum(written.strip().lower())

    def _sum(self, text: str) -> float:
        parts = [match.groups(default="") for match in _PART.finditer(text)]
        readable = bool(text) and _PART.sub("", text) == ""
        if not readable or (len(parts) > 1 and not self.compound):
            return math.nan
        if len(parts) == 1 and parts[0][2] == "":
            return float(parts[0][0] + parts[0][1])
        return sum(float(number + power) * self.units.get(unit, math.nan) for number, power, unit in parts)


def _named(*groups: tuple[float, str]) -> dict[str, float]:
    return {name: scale for scale, names in groups for name in names.split()}


DURATION = Quantity(
    "seconds or a duration such as 90s, 2h or 1.5d",
    _named(
        (1e-3, "ms"),
        (1.0, "s sec secs second seconds"),
        (60.0, "m min mins minute minutes"),
        (3600.0, "h hr hrs hour hours"),
        (86400.0, "d day days"),
        (604800.0, "w week weeks"),
    ),
    compound=True,
)
"""Time, in seconds."""

# Binary and decimal prefixes differ by 7 % at this scale, which a memory request must not blur.
SIZE = Quantity(
    "gigabytes or a size such as 512MB, 16GB or 1.5TB",
    _named(
        (1e-9, "b"),
        (1e-6, "k kb"),
        (1e-3, "m mb"),
        (1.0, "g gb"),
        (1e3, "t tb"),
        (1e6, "p pb"),
        (2.0**10 / 1e9, "ki kib"),
        (2.0**20 / 1e9, "mi mib"),
        (2.0**30 / 1e9, "gi gib"),
        (2.0**40 / 1e9, "ti tib"),
        (2.0**50 / 1e9, "pi pib"),
    ),
)
"""Memory and data, in gigabytes (10⁹ bytes)."""

BANDWIDTH = Quantity(
    "gigabits per second or a bandwidth such as 500Mbps or 10Gbps",
    _named(
        (1e-6, "kbps kbit kbit/s kb/s"),
        (1e-3, "mbps mbit mbit/s mb/s"),
        (1.0, "gbps gbit gbit/s gb/s"),
        (1e3, "tbps tbit tbit/s tb/s"),
    ),
)
"""Network bandwidth, in gigabits per second."""
