"""``python -m benchmarks.inputs``: thousands of damaged input files of every kind, each handed to its real verb."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.progress import Progress

from benchmarks.figures import Figures
from benchmarks.inputs.judging import FAULTS
from benchmarks.inputs.running import warm
from benchmarks.inputs.samples import kinds
from benchmarks.inputs.trying import GROUPS, Tally, try_all


def main() -> None:
    """Print every figure; exit non-zero if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inputs", description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="how many inputs [3000]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=GROUPS, action="append", help="kinds of input (may be repeated)")
    parser.add_argument("--case", type=int, help="one case again, and what it printed is kept")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for the figures")
    parser.add_argument("--keep", action="store_true", help="keep the inputs that broke a promise")
    options = parser.parse_args()
    chosen = [kind for kind in kinds() if not options.only or kind.group in options.only]
    numbers = range(options.count) if options.case is None else [options.case]
    name = f"inputs-{'-'.join(options.only)}" if options.only else "inputs"
    figures = Figures(name, options.out)
    folder = Path(tempfile.mkdtemp(prefix="elastane-inputs-"))
    warm()
    began_s = time.monotonic()
    print(f"--- {len(numbers)} inputs of {len(chosen)} kinds (load {os.getloadavg()[0]:.1f})", flush=True)
    try:
        with Progress(transient=True, disable=not sys.stdout.isatty()) as bar:
            task = bar.add_task("inputs", total=len(numbers))
            tally = try_all(numbers, options.seed, chosen, folder, lambda: bar.advance(task))
    finally:
        if options.keep:
            print(f"kept {folder / 'faults'}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    figures.note(f"took {time.monotonic() - began_s:.0f} s")
    report(figures, tally)
    figures.finish()


def report(figures: Figures, tally: Tally) -> None:
    """Counts, examples of what went wrong, and a gate per promise."""
    figures.note(", ".join(f"{count:,} {what}" for what, count in tally.counts.items()))
    figures.note(", ".join(f"{count:,} {group}" for group, count in tally.by_group.items()))
    figures.note(f"the slowest took {tally.longest[0]:.1f} s ({tally.longest[1]})")
    figures.note(f"the largest had {tally.largest[0]:.0f} MB ({tally.largest[1]})")
    for fault in FAULTS:
        found = tally.broken.get(fault, [])
        for words in found[:10]:
            figures.note(f"{fault}: {words}")
        figures.at_most(f"inputs: {fault}", len(found), 0, "gate")


if __name__ == "__main__":
    main()
