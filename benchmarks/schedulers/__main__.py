"""``python -m benchmarks.schedulers [--only NAME ...]``: exits non-zero if a gate was missed."""

from __future__ import annotations

from benchmarks.harness import Suite, run
from benchmarks.schedulers.gavel import gavel
from benchmarks.schedulers.sia import sia
from benchmarks.schedulers.themis import themis

SUITE = Suite(
    "schedulers",
    "Published schedulers against what their own simulators and papers give.",
    {
        "gavel": lambda bench: gavel(bench.figures),
        "sia": lambda bench: sia(bench.figures),
        "themis": lambda bench: themis(bench.figures, bench.folder),
    },
    works_in_folders=False,
)

if __name__ == "__main__":
    run(SUITE)
