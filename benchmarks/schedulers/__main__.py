"""``python -m benchmarks.schedulers [--only NAME ...]``: exits non-zero if a gate was missed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from benchmarks.figures import Figures
from benchmarks.schedulers.gavel import gavel
from benchmarks.schedulers.sia import sia

SCHEDULERS: Mapping[str, Callable[[Figures], None]] = {"gavel": gavel, "sia": sia}


def main() -> None:
    """Measure the schedulers asked for, by default all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedulers", description=__doc__)
    parser.add_argument("--only", choices=SCHEDULERS, action="append", help="this one (may be repeated)")
    names = parser.parse_args().only or list(SCHEDULERS)
    figures = Figures("schedulers" if len(names) == len(SCHEDULERS) else f"schedulers-{'-'.join(names)}")
    for name in names:
        SCHEDULERS[name](figures)
    figures.finish()


if __name__ == "__main__":
    main()
