"""The harness of benchmarks that have groups of figures: arguments, folders, processes that must not be left behind.

A group is a function that is handed a ``Bench``.  One that cannot be measured misses a gate and hides no other.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figures


class Stuck(RuntimeError):
    """A job did not do what it was asked in a time that is long beyond any measure."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a group is given: where to print, a folder of its own that disappears afterwards, and how much to do."""

    figures: Figures
    folder: Path
    quick: bool = False
    seed: int = 0
    cases: tuple[str, ...] = ()
    """The only cases to try, for groups that have some; empty: all."""

    def count(self, full: int, quick: int) -> int:
        """How often to repeat something."""
        return quick if self.quick else full


Group = Callable[[Bench], None]


@dataclass(frozen=True, slots=True)
class Suite:
    """One benchmark: ``python -m benchmarks.NAME``."""

    name: str
    about: str
    groups: Mapping[str, Group]
    whole: str = ""
    """The name of the figures of all groups together; by default that of the suite."""
    works_in_folders: bool = True
    """Its groups write files and start processes, more or fewer, from a seed: so there are options for that."""
    cases: str = ""
    """The option that names single cases, if it has any: ``poison`` for ``--poison``."""


def run(suite: Suite) -> None:
    """Print every figure; exit non-zero if a gate is missed or a group could not be measured."""
    options = _arguments(suite).parse_args()
    # Asked to end, we clean up first: nothing may outlive the benchmark.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    only = list(dict.fromkeys(options.only))
    figures = Figures(f"{suite.name}-{'-'.join(only)}" if only else suite.whole or suite.name)
    quick = suite.works_in_folders and options.quick
    if quick:
        figures.note("QUICK: small counts, these figures prove nothing")
    seed = options.seed if suite.works_in_folders else 0
    with _folder(suite, figures, keep=suite.works_in_folders and options.keep) as folder:
        for name in only or suite.groups:
            bench = Bench(figures, folder / name, quick, seed, tuple(options.cases))
            _measure(name, suite.groups[name], bench)
    figures.finish()


def _arguments(suite: Suite) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{suite.name}", description=suite.about)
    parser.add_argument(
        "--only", choices=suite.groups, action="append", default=[], help="run this group (may be repeated)"
    )
    if suite.works_in_folders:
        parser.add_argument("--quick", action="store_true", help="small counts, for development")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--keep", action="store_true", help="keep the folder with everything written")
    parser.set_defaults(cases=[])
    if suite.cases:
        words = f"only this {suite.cases} (may be repeated)"
        parser.add_argument(f"--{suite.cases}", dest="cases", action="append", default=[], help=words)
    return parser


@contextlib.contextmanager
def _folder(suite: Suite, figures: Figures, *, keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f"elastane-{suite.name}-"))
    try:
        yield folder
    finally:
        sweep(folder)
        if keep:
            figures.note(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _measure(name: str, group: Group, bench: Bench) -> None:
    bench.folder.mkdir()
    began_s = time.monotonic()
    # Times mean little without it: the machine may have other work.
    print(f"--- {name} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)", flush=True)
    try:
        group(bench)
    except Exception as problem:
        bench.figures.note(str(problem))
        if not isinstance(problem, Stuck):
            traceback.print_exc()
        bench.figures.at_least(f"{name}: measured to the end", 0, 1, "gate")
    bench.figures.note(f"{name} took {time.monotonic() - began_s:.0f} s")


def processes_of(folder: Path) -> list[int]:
    """Processes that have this folder in their environment: those a benchmark started for it."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(folder).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def sweep(folder: Path) -> int:
    """Kill whatever is left of a folder's processes; returns how many there were."""
    left = processes_of(folder)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)
