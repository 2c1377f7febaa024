"""Runs as a worker process: reads specs as JSON lines, writes progress and results as JSON lines.

It is started by ``sim.run_many`` and ends when its input ends, or when its output is no longer read.
"""

from __future__ import annotations

import os
import sys

from elastane.errors import ElastaneError
from elastane.kit.tagged_json import line_of
from elastane.sim.run import simulate
from elastane.sim.serialize import result_to_plain, spec_from_plain
from elastane.sim.worker_messages import TO_WORKER, FromWorker, Mistake, Progress, Result


def _say(message: FromWorker) -> None:
    sys.stdout.write(line_of(message))
    sys.stdout.flush()


def main() -> None:
    """Simulates one spec per line until the input ends."""
    try:
        for line in sys.stdin:
            try:
                spec = spec_from_plain(TO_WORKER.read(line).spec)
                result = simulate(spec, lambda done, total: _say(Progress(done, total)))
                _say(Result(result_to_plain(result)))
            except ElastaneError as error:
                _say(Mistake(str(error)))
    except BrokenPipeError:
        # The parent reads no more; the interpreter must not complain about it while it closes down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
