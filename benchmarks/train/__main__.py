"""``make bench-train``: all figures of the training library, or one group of them with ``--only``."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from benchmarks.train.accuracy import accuracy
from benchmarks.train.against_ddp import ddp
from benchmarks.train.bench import Bench, TrainFigures
from benchmarks.train.joining import snapshot, warmup
from benchmarks.train.kills import kills
from benchmarks.train.leaks import leaks
from benchmarks.train.live import Stuck, sweep
from benchmarks.train.measuring import measuring
from benchmarks.train.ordered import consistent
from benchmarks.train.pauses import pauses

GROUPS: dict[str, Callable[[Bench], None]] = {
    "pauses": pauses,
    "snapshot": snapshot,
    "warmup": warmup,
    "kills": kills,
    "leaks": leaks,
    "accuracy": accuracy,
    "ddp": ddp,
    "consistent": consistent,
    "measuring": measuring,
}


def main() -> None:
    """Print every figure; exit non-zero if a gate is missed or a group could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train", description=__doc__)
    parser.add_argument("--only", choices=GROUPS, action="append", help="run this group (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="small counts, for development")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # Asked to end, we clean up first: jobs must not outlive the benchmark.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = options.only or list(GROUPS)
    figures = TrainFigures("train" if not options.only else f"train-{'-'.join(names)}")
    if options.quick:
        figures.note("QUICK: small counts, these figures prove nothing")
    with tempfile.TemporaryDirectory(prefix="elastane-bench-", ignore_cleanup_errors=True) as folder:
        try:
            for name in names:
                _run(name, Bench(figures, Path(folder) / name, options.quick, options.seed))
        finally:
            sweep(Path(folder))
    figures.finish()


def _run(name: str, bench: Bench) -> None:
    bench.folder.mkdir()
    began_s = time.monotonic()
    print(f"--- {name}", flush=True)
    try:
        GROUPS[name](bench)
    except Exception as problem:  # one group that cannot be measured must not hide the others
        bench.figures.note(str(problem))
        if not isinstance(problem, Stuck):
            traceback.print_exc()
        bench.figures.at_least(f"{name}: measured to the end", 0, 1, "gate")
    bench.figures.note(f"{name} took {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
