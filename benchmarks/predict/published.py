"""Cost models on published layer timings: rows, cards and generations that were left out of the fit.

What ``elastane predict backtest`` prints, against the gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.figures import Figures, shared_data
from benchmarks.predict.raw_columns import RawColumns
from benchmarks.predict.resuming import network_score
from elastane.predict.backtesting.errors import score
from elastane.predict.backtesting.held_out import NETWORK, OURS, held_out, models
from elastane.predict.backtesting.unseen import unseen
from elastane.predict.timings import TimingSet, load_timings

A100 = frozenset({"a100-40g"})


def published(group: str) -> tuple[TimingSet, ...]:
    """The sets of one group: ``convolution``, ``dense``, ``modern_linear`` or ``modern_bmm``."""
    return tuple(each for each in load_timings(shared_data("data", "layers")) if each.group == group)


def rows_left_out(figures: Figures) -> None:
    """A tenth of the rows of every card, four models, the network by its own recipe."""
    quick = {name: fit for name, fit in models().items() if name != NETWORK}
    for group, limit in (("convolution", 10.0), ("dense", 5.0)):
        for each in published(group):
            (found,) = held_out((each,), quick)
            ours = found.of(OURS)
            rivals = [*(rival for rival in found.scores if rival is not ours), network_score(each)]
            best = min(rival.median for rival in rivals)
            figures.at_most(f"{found.name}, held-out rows, median error", ours.median, limit, "gate", "%")
            figures.at_most(f"{found.name}, ours over the best of the others", ours.median / best, 1.0, "gate")
            told = ", ".join(f"{rival.model} {rival.median:.1f} %" for rival in rivals)
            figures.note(f"{told}; 90 % interval covers {ours.covered:.0f} %")


def unseen_cards(figures: Figures) -> None:
    """Convolutions on a card that none of the training rows is from, without and with probes."""
    found = list(unseen(published("convolution")))
    for each in found:
        figures.note(
            f"without rows of {each.device}: mean {each.plain.mean:.1f} %, with 20 probes {each.probed.mean:.1f} %, "
            f"PALEO {each.paleo.mean:.1f} %"
        )
    plain, probed = (
        float(np.mean([getattr(each, name).mean for each in found])) for name in ("plain", "probed")
    )
    figures.at_most("convolution, leave one card out, mean error", plain, 33.0, "gate", "%")
    figures.at_most("the same with 20 probes", probed, 22.0, "gate", "%")


def _raw_columns(sets: Sequence[TimingSet]) -> float:
    """Median error on the A100 of a model that learns from columns of specifications: it must miss the goal."""
    known = [row for each in sets if each.device.name not in A100 for row in each.timings]
    (left,) = (each for each in sets if each.device.name in A100)
    return score(RawColumns.fit(known), left.timings).median


def unseen_modern(figures: Figures) -> None:
    """Matrix products on an A100, learnt from P4, P100, V100 and T4."""
    for group in ("modern_linear", "modern_bmm"):
        sets = tuple(replace(each, timings=each.timings[:6000]) for each in published(group))
        (found,) = unseen(sets, A100)
        if group == "modern_linear":
            figures.at_most(f"{group}, leave A100 out, median", found.plain.median, 15.0, "goal", "%")
            raw = _raw_columns(sets)
            figures.note(f"{group} without A100, trees on raw specification columns: median {raw:.1f} %")
            figures.at_most("15 % over the error that raw specification columns have", 15.0 / raw, 1.0, "gate")
        figures.note(
            f"{group} without A100: median {found.plain.median:.1f} %, with 20 probes {found.probed.median:.1f} %, "
            f"PALEO {found.paleo.median:.1f} %"
        )
