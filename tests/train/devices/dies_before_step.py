"""Kills a worker between the reduction and the optimizer's step, once per job; loaded into workers by ``--preload``.

The gradients are summed on all members then, and whoever is faster may have made the step already.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from elastane.train.worker.update import Updates

_make = Updates.make


def _make_or_die(self: Updates, *words: Any, **more: Any) -> Any:
    step = int(os.environ.get("DIES_BEFORE_STEP", "0"))
    victim = os.environ.get("DIES", "w2") == os.environ.get("ELASTANE_WORKER")
    if victim and words[-1] >= step:
        os.kill(os.getpid(), signal.SIGKILL)
    return _make(self, *words, **more)


Updates.make = _make_or_die  # type: ignore[method-assign]
