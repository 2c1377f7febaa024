"""Runs as a worker process: reads specs as JSON lines, writes progress and results as JSON lines.

It is started by ``sim.run_many`` and ends when its input ends, or when its output is no longer read.
"""

from __future__ import annotations

import json
import os
import sys

from elastane.errors import ElastaneError
from elastane.sim.run import simulate
from elastane.sim.serialize import result_to_plain, spec_from_plain


def _say(**news: object) -> None:
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Simulates one spec per line until the input ends."""
    try:
        for line in sys.stdin:
            try:
                result = simulate(
                    spec_from_plain(json.loads(line)), lambda done, total: _say(progress=[done, total])
                )
                _say(result=result_to_plain(result))
            except ElastaneError as error:
                _say(error=str(error))
    except BrokenPipeError:
        # The parent reads no more; the interpreter must not complain about it while it closes down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
