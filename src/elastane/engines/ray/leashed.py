"""Runs ``elastane node`` on its pilot's leash: however the pilot ends, agent and workers of the node end, too."""

from __future__ import annotations

import os
import sys

from elastane.train.coordinator.script_runner import set_death_signal

PARENT = "ELASTANE_PILOT"
"""The process id of the pilot, by which a process that was started too late notices that it is an orphan."""


def main() -> None:
    """Become the agent of this node."""
    parent = int(os.environ.pop(PARENT, "0"))
    set_death_signal()
    if os.getppid() != parent:
        sys.exit("elastane: error: the pilot ended before its node began")
    os.execv(sys.executable, [sys.executable, "-m", "elastane", "node", *sys.argv[1:]])  # noqa: S606


if __name__ == "__main__":
    main()
