"""Blocks of consecutive positions are cut into units: pure arithmetic, no padding, nothing lost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def split(count: int, parts: int) -> tuple[int, ...]:
    """``count`` samples over ``parts`` units, as even as possible, the larger ones first.

    With fewer samples than units the last units get 0; they are not to be fetched.

    >>> split(10, 4)
    (3, 3, 2, 2)
    """
    if count < 0 or parts < 1:
        raise ValueError(f"cannot split {count} samples into {parts} parts")
    each, larger = divmod(count, parts)
    return (each + 1,) * larger + (each,) * (parts - larger)


def unit_spans(start: int, counts: Sequence[int]) -> list[tuple[int, int]]:
    """The (start, count) of units that lie one after the other from position ``start``.

    >>> unit_spans(100, (3, 3, 2))
    [(100, 3), (103, 3), (106, 2)]
    """
    starts = accumulate(counts, initial=start)
    return list(zip(starts, counts, strict=False))
