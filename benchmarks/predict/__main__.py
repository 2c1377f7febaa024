"""``make bench-predict``: all figures of prediction, or some of them with ``--only``.

The neural network that others are compared with takes most of the time; what it scored is kept in ``build``.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.figures import Figures
from benchmarks.harness import Group, Suite, run
from benchmarks.predict.catalog import catalog_speed
from benchmarks.predict.eta import time_left
from benchmarks.predict.eta_running import resumed_runs
from benchmarks.predict.published import rows_left_out, unseen_cards, unseen_modern
from benchmarks.predict.vgg import vgg_on_v100
from benchmarks.predict.whole import whole_networks


def _group(measure: Callable[[Figures], None]) -> Group:
    """A group that needs nothing but a place for its figures."""
    return lambda bench: measure(bench.figures)


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

SUITE = Suite(
    "predict",
    __doc__,
    {name: _group(measure) for name, measure in GROUPS.items()},
    works_in_folders=False,
)

if __name__ == "__main__":
    run(SUITE)
