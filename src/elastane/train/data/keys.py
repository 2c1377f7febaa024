"""Numbers that look random but follow from their inputs alone, on every machine and in every version.

The mixing is that of SplitMix64 (Steele, Lea and Flood, 2014), a bijection of 64-bit numbers.  It is written
out here because the orders and streams of a running job must not change when NumPy or PyTorch is upgraded.
It is no cryptography.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_MASK = 0xFFFFFFFFFFFFFFFF
_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


class Purpose(IntEnum):
    """What a key is for, so that equal numbers used for different things have nothing in common."""

    ORDER = 1
    SAMPLER = 2
    SAMPLE = 3
    BATCH = 4
    STREAM = 5
    UNIT = 6


def key_of(purpose: Purpose, *parts: int) -> int:
    """A 64-bit key that depends on every part and on their order."""
    key = _scrambled(purpose)
    for part in parts:
        key = _scrambled((key ^ _scrambled(part & _MASK)) + _STEP)
    return key


def scramble(numbers: NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
    """A keyed bijection of 64-bit numbers, one by one: distinct numbers stay distinct."""
    mixed = numbers * np.uint64(_STEP)
    mixed += np.uint64(key & _MASK)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(_FIRST)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(_SECOND)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _scrambled(number: int) -> int:
    mixed = (number * _STEP) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * _FIRST) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * _SECOND) & _MASK
    return mixed ^ (mixed >> 31)
