"""A process that has imported everything an attempt needs, and waits to be told which one to run.

``python -m elastane.engines.local.spare_process HOME``; the home is there for whoever looks at the list of processes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from elastane.engines.local.attempt_process import run_attempt


def main() -> None:
    """One line on standard input names the attempt's folder; none means that nobody needs us."""
    line = sys.stdin.readline()
    if not line:
        return
    folder = Path(line.rstrip("\n"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(folder / "job.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    run_attempt(folder)


if __name__ == "__main__":
    main()
