"""Holds auctions with many bidders: GPUs go where a further one raises Σ log V most.

Bids of an app on one type are replaced by their concave hull, and its steps by all apps are taken in the order of gain
per GPU.  Without app i, its GPUs go to the next steps in that order, so one sorted list answers all N + 1 questions.
For concave bid tables and steps of one GPU that is the exact allocation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from elastane.policies.themis.auction import Bid, Bidder, Free, Win


@dataclass(frozen=True, slots=True)
class _Step:
    """From one corner of an app's hull to the next; ``number`` counts them."""

    bidder: int
    number: int
    gpus: int
    gain: float
    bid: Bid

    @property
    def slope(self) -> float:
        return self.gain / self.gpus


def hold_greedy(bidders: Sequence[Bidder], free: Free) -> dict[str, Win]:
    """Returns the winners and what they keep."""
    steps = sorted(
        (
            step
            for place, each in enumerate(bidders)
            for kind in sorted(free)
            for step in _hull(place, each, kind)
        ),
        key=lambda step: (-step.slope, step.bidder, step.bid.gpu_type, step.number),
    )
    left, taken = dict(free), dict[int, _Step]()
    refused: dict[str, list[_Step]] = {kind: [] for kind in free}
    for step in steps:
        kind = step.bid.gpu_type
        if _is_next(step, taken.get(step.bidder)) and step.gpus <= left[kind]:
            taken[step.bidder] = step
            left[kind] -= step.gpus
        else:
            refused[kind].append(step)
    return {
        bidders[place].id: Win(step.bid, math.exp(-_lost(step, left, taken, refused)))
        for place, step in sorted(taken.items())
    }


def _is_next(step: _Step, last: _Step | None) -> bool:
    """Tells whether a step goes on where its app stands; an app takes GPUs of one type."""
    if last is None:
        return step.number == 0
    return step.number == last.number + 1 and step.bid.gpu_type == last.bid.gpu_type


def _lost(mine: _Step, left: Free, taken: dict[int, _Step], refused: dict[str, list[_Step]]) -> float:
    """Returns what the others' Σ log V would gain from the GPUs of one app."""
    kind = mine.bid.gpu_type
    gpus, gained = mine.bid.gpus + left[kind], 0.0
    moved: dict[int, _Step] = {}
    for step in refused[kind]:
        if not gpus:
            break
        last = moved.get(step.bidder) or taken.get(step.bidder)
        if step.bidder != mine.bidder and step.gpus <= gpus and _is_next(step, last):
            moved[step.bidder] = step
            gpus -= step.gpus
            gained += step.gain
    return gained


def _hull(place: int, bidder: Bidder, kind: str) -> list[_Step]:
    """Returns the steps along the concave hull of (GPUs, log V), the steepest first."""
    corners: list[tuple[int, float, Bid | None]] = [(0, bidder.log(None), None)]
    mine = sorted((bid for bid in bidder.bids if bid.gpu_type == kind), key=lambda bid: (bid.gpus, -bid.value))
    for bid in mine:
        value = bidder.log(bid)
        if value <= corners[-1][1] or bid.gpus == corners[-1][0]:
            continue
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) <= _slope(corners[-1], (bid.gpus, value)):
            corners.pop()
        corners.append((bid.gpus, value, bid))
    return [
        _Step(place, number, after[0] - before[0], after[1] - before[1], after[2])
        for number, (before, after) in enumerate(pairwise(corners))
        if after[2] is not None
    ]


def _slope(
    before: tuple[int, float, Bid | None], after: tuple[int, float] | tuple[int, float, Bid | None]
) -> float:
    return (after[1] - before[1]) / (after[0] - before[0])
