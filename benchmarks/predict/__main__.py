"""``make bench-predict``: all figures of prediction (half an hour or more, most of it the neural network)."""

from __future__ import annotations

from benchmarks.figures import Figures
from benchmarks.predict.catalog import catalog_speed
from benchmarks.predict.eta import time_left
from benchmarks.predict.eta_running import resumed_runs
from benchmarks.predict.published import rows_left_out, unseen_cards, unseen_modern
from benchmarks.predict.vgg import vgg_on_v100
from benchmarks.predict.whole import whole_networks


def main() -> None:
    """Quick ones first."""
    figures = Figures("predict")
    catalog_speed(figures)
    resumed_runs(figures)
    time_left(figures)
    vgg_on_v100(figures)
    whole_networks(figures)
    rows_left_out(figures)
    unseen_cards(figures)
    unseen_modern(figures)
    figures.finish()


if __name__ == "__main__":
    main()
