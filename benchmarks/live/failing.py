"""A control plane that is killed at one of its own failpoints: ``python -m benchmarks.live.failing POINT NTH …``.

It dies, by kill −9, when it comes to that place for the nth time; until then it is ``elastane up`` with the options
that follow.
"""

from __future__ import annotations

import os
import signal
import sys

from elastane.cli.main import main as command_line
from elastane.service.store import failpoints


def main() -> None:
    """Run until the failpoint, if it is ever reached."""
    point, left = sys.argv[1], int(sys.argv[2])

    def reached(name: str) -> None:
        nonlocal left
        left -= name == point
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.argv = ["elastane", "up", *sys.argv[3:]]
    with failpoints.watched(reached):
        command_line()


if __name__ == "__main__":
    main()
