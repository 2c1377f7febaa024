"""Memory files that a fork server makes for its workers' snapshots (``worker.node_snapshots`` says what for).

They have no names in any directory: they are there as long as the fork server or one of its workers is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

SNAPSHOTS = "ELASTANE_SNAPSHOTS"
"""The descriptors of the two files, from a fork server to the workers it forks."""
_NAME = "elastane-state"


def offer(environment: MutableMapping[str, str]) -> None:
    """Make two files, empty, for processes that are forked from this one."""
    with contextlib.suppress(OSError, AttributeError):  # a system without them has no snapshots
        environment[SNAPSHOTS] = ",".join(str(os.memfd_create(_NAME)) for _ in range(2))


def inherited(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Their descriptors; None in a process that was not forked from a fork server."""
    try:
        slots = [int(each) for each in environment.get(SNAPSHOTS, "").split(",")]
        ours = all(f"memfd:{_NAME} " in f"{Path(f'/proc/self/fd/{slot}').readlink()} " for slot in slots)
    except (ValueError, OSError):
        return None
    return (slots[0], slots[1]) if len(slots) == 2 and ours else None
