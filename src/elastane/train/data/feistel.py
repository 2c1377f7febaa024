"""A keyed permutation of 0 … n−1 that needs no table: any part of it can be asked for, in constant memory.

A Feistel network permutes the smallest power of two that holds n; results outside the range are permuted
again until they fall inside (cycle walking), which keeps it a permutation.  Good enough to shuffle data,
no cryptography; for small n a sorted table (``order.py``) mixes better.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elastane.train.data.keys import scramble

_ROUNDS = 8


def feistel(positions: NDArray[np.int64], length: int, key: int) -> NDArray[np.int64]:
    """Where the permutation of 0 … ``length`` − 1 that belongs to ``key`` sends each position."""
    bits = max(2, (length - 1).bit_length())
    found = _network(positions.astype(np.uint64), bits, key)
    outside = np.flatnonzero(found >= length)
    while outside.size:
        found[outside] = _network(found[outside], bits, key)
        outside = outside[found[outside] >= length]
    return found.astype(np.int64)


def _network(numbers: NDArray[np.uint64], bits: int, key: int) -> NDArray[np.uint64]:
    """One pass over all rounds; each changes one half by a function of the other, so it can be undone."""
    low_bits = np.uint64(bits // 2)
    low_mask = np.uint64((1 << (bits // 2)) - 1)
    high_mask = np.uint64((1 << (bits - bits // 2)) - 1)
    high, low = numbers >> low_bits, numbers & low_mask
    for turn in range(_ROUNDS):
        if turn % 2:
            low = low ^ (scramble(high, key + turn) & low_mask)
        else:
            high = high ^ (scramble(low, key + turn) & high_mask)
    return (high << low_bits) | low
