"""``make chaos`` and ``make bench-live``: the live system under kills, load and damage; ``--only`` chooses."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.live.agents import agents
from benchmarks.live.control import control
from benchmarks.live.fidelity import fidelity
from benchmarks.live.hostile import hostile
from benchmarks.live.rounds import rounds
from benchmarks.live.specs import specs
from benchmarks.live.store import store
from benchmarks.live.submissions import submissions
from benchmarks.train.bench import Bench, TrainFigures
from benchmarks.train.live import Stuck, sweep

GROUPS: dict[str, Callable[[Bench], None]] = {
    "rounds": lambda bench: rounds(bench.figures),
    "control": control,
    "agents": agents,
    "submissions": submissions,
    "specs": specs,
    "fidelity": fidelity,
    "store": store,
    "hostile": hostile,
}


def main() -> None:
    """Print every figure; exit non-zero if a gate is missed or a group could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--only", choices=GROUPS, action="append", help="run this group (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="small counts, for development")
    parser.add_argument("--poison", action="append", default=[], help="hostile: only these poisons of our own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep the folder with everything that was written")
    options = parser.parse_args()
    # Asked to end, we clean up first: nothing may outlive the benchmark.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = options.only or list(GROUPS)
    groups: dict[str, Callable[[Bench], None]] = {**GROUPS, "hostile": partial(hostile, names=options.poison)}
    figures = TrainFigures(f"live-{'-'.join(options.only)}" if options.only else "live-all")
    if options.quick:
        figures.note("QUICK: small counts, these figures prove little")
    folder = Path(tempfile.mkdtemp(prefix="elastane-live-"))
    try:
        for name in names:
            _run(name, groups[name], Bench(figures, folder / name, options.quick, options.seed))
    finally:
        sweep(folder)
        if options.keep:
            figures.note(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    figures.finish()


def _run(name: str, group: Callable[[Bench], None], bench: Bench) -> None:
    bench.folder.mkdir()
    began_s = time.monotonic()
    # Times mean little without it: the machine may have other work.
    print(f"--- {name} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)", flush=True)
    try:
        group(bench)
    except Exception as problem:  # one group that cannot be measured must not hide the others
        bench.figures.note(str(problem))
        if not isinstance(problem, Stuck):
            traceback.print_exc()
        bench.figures.at_least(f"{name}: measured to the end", 0, 1, "gate")
    bench.figures.note(f"{name} took {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
