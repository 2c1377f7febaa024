"""``make bench-predict``: all figures of prediction, or some of them with ``--only``.

The neural network that others are compared with takes most of the time; what it scored is kept in ``build``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks.figures import Figures
from benchmarks.predict.catalog import catalog_speed
from benchmarks.predict.eta import time_left
from benchmarks.predict.eta_running import resumed_runs
from benchmarks.predict.published import rows_left_out, unseen_cards, unseen_modern
from benchmarks.predict.vgg import vgg_on_v100
from benchmarks.predict.whole import whole_networks

GROUPS: dict[str, Callable[[Figures], None]] = {
    "catalog": catalog_speed,
    "resumed": resumed_runs,
    "stopping": time_left,
    "vgg": vgg_on_v100,
    "whole": whole_networks,
    "cards": unseen_cards,
    "modern": unseen_modern,
    "rows": rows_left_out,
}
"""Quick ones first."""


def main() -> None:
    """Print every figure; exit non-zero if a gate is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predict", description=__doc__)
    parser.add_argument("--only", choices=GROUPS, action="append", help="run this group (may be repeated)")
    names = parser.parse_args().only or list(GROUPS)
    figures = Figures("predict" if len(names) == len(GROUPS) else f"predict-{'-'.join(names)}")
    for name in names:
        GROUPS[name](figures)
    figures.finish()


if __name__ == "__main__":
    main()
