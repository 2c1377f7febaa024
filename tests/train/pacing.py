"""Slows a training down until its resizes and kills have happened; loaded into workers by ``--preload``.

So scripts that know nothing of tests, with the few steps that a test can afford, do not end before: a step waits
for RUN/enough, briefly after members have changed and longer the longer that is ago.  What is computed stays the same.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from elastane.compat.horovod.elastic.state import State
from elastane.compat.horovod.process import session
from elastane.train.worker.loop import Loop

FIRST_S, GROWTH, LONGEST_S = 0.04, 1.1, 3.0
"""40 steps last 18 s, 80 more than two minutes; none of them so long that a worker is thought to hang."""


class _Pace:
    """Counts steps since members changed."""

    def __init__(self) -> None:
        self._generation = self._steps = 0

    def wait(self, generation: int) -> None:
        self._steps = self._steps + 1 if generation == self._generation else 0
        self._generation = generation
        enough = Path(os.environ["ELASTANE_RUN"], "enough")
        until_s = time.monotonic() + min(FIRST_S * GROWTH ** min(self._steps, 100), LONGEST_S)
        while time.monotonic() < until_s and not enough.exists():
            time.sleep(0.01)


_pace = _Pace()
_boundary, _commit = Loop.boundary, State.commit


def _slow_boundary(loop: Loop, *, loop_begins: bool) -> None:
    _boundary(loop, loop_begins=loop_begins)
    _pace.wait(loop.membership.generation)


def _slow_commit(state: State) -> None:
    _pace.wait(session().membership.generation)
    _commit(state)


Loop.boundary = _slow_boundary  # type: ignore[method-assign]
State.commit = _slow_commit  # type: ignore[method-assign]
