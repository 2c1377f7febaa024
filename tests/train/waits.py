"""Counts how often the host waits for its pretend GPU: every call, of every thread, that blocks until work is done.

The device itself counts: synchronised streams, events and devices (also where times are asked for), copies that are
not pinned or not ``non_blocking``, reads of numbers, kernels that tell the host a size, lack of memory.  A call that
asks for what the host has been told already blocks nobody, and is not counted.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from elastane.train.transports.lane import Errand
from fakegpu import build

ENDED = "a thread that has ended"


@contextmanager
def counted() -> Iterator[collections.Counter[str]]:
    """Every wait inside: ``event``, or ``event in NAME`` for that of another thread than the caller's.

    ``lane`` is a wait for another thread that waits for the device, or for gloo.
    """
    extension: Any = build.load()
    found: collections.Counter[str] = collections.Counter()
    here, result = threading.get_native_id(), Errand.result

    def waiting(errand: Errand[Any]) -> Any:
        found["lane"] += 1
        return result(errand)

    extension.count_waits()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Errand, "result", waiting)
            yield found
    finally:
        for what, thread in extension.counted_waits():
            found[what if thread == here else f"{what} in {_name(thread)}"] += 1


def _name(thread: int) -> str:
    for each in threading.enumerate():
        if each.native_id == thread:
            return each.name
    try:
        name = Path(f"/proc/self/task/{thread}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ENDED
    # Python's own threads have the name of the process here: one that is no more in the list above is just ending.
    return ENDED if name == Path("/proc/self/comm").read_text(encoding="utf-8").strip() else name
