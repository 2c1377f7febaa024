"""Freed memory stays with the process, so that the next gradients find it warm.

Every backward allocates all gradients anew.  By default glibc gives large freed blocks back to the kernel, and
the page faults of fetching them again cost more than a reduction does (a tenth of a small CNN's step).
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt(3)
_KEPT_BYTES = 2**31 - 1
_LARGEST_MMAP_BYTES = 2**25  # glibc accepts no more; larger tensors are still mapped one by one


def keep_freed_memory() -> bool:
    """Set this up for the whole process; False where the C library knows no such thing."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    kept = mallopt(_TRIM_THRESHOLD, _KEPT_BYTES), mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_BYTES)
    return all(kept)
