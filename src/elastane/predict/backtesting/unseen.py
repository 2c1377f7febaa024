"""Scores predictions for cards left out of the fit, from the other cards of a group, with and without probes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from elastane.predict.backtesting.errors import Score, score
from elastane.predict.backtesting.held_out import Progress
from elastane.predict.costs.contract import Basis, Timing
from elastane.predict.costs.ratio import RatioModel, probe_factors
from elastane.predict.costs.simple import Paleo
from elastane.predict.timings import TimingSet

PROBES = 20
ROWS_PER_CARD = 6000

Fit = Callable[[Sequence[Timing]], RatioModel]


def from_others(timings: Sequence[Timing]) -> RatioModel:
    """Fits our model, for cards that are not among these."""
    return RatioModel.fit(timings, basis=Basis.RATIO)


@dataclass(frozen=True)
class Unseen:
    """The scores on one card that was left out: our model, plain and probed, and PALEO."""

    name: str
    device: str
    learnt_from: tuple[str, ...]
    plain: Score
    probed: Score
    paleo: Score


def unseen(
    sets: Sequence[TimingSet],
    only: frozenset[str] = frozenset(),
    probes: int = PROBES,
    fit: Fit = from_others,
    progress: Progress = lambda _done, _what: None,
) -> Iterator[Unseen]:
    """Leaves each card out in turn, or only those named; groups of a single card are skipped."""
    groups: dict[str, list[TimingSet]] = defaultdict(list)
    for each in sets:
        groups[each.group].append(each)
    asked = [
        (each, others)
        for group in groups.values()
        for each in group
        if (others := [other for other in group if other is not each])
        and (not only or each.device.name in only)
    ]
    for place, (left, others) in enumerate(asked):
        progress(place / len(asked), f"without {left.name}")
        yield _without(left, others, probes, fit)


def _without(left: TimingSet, others: Sequence[TimingSet], probes: int, fit: Fit) -> Unseen:
    known = [row for other in others for row in other.timings[:ROWS_PER_CARD]]
    few, new = left.timings[:probes], left.timings[probes:]
    model = fit(known)
    probed = replace(model.rescaled(probe_factors(model, few)), name="ours, probed")
    return Unseen(
        name=left.name,
        device=left.device.name,
        learnt_from=tuple(other.device.name for other in others),
        plain=score(model, new),
        probed=score(probed, new),
        paleo=score(Paleo.fit(known), new),
    )
