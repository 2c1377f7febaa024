"""Holds the auction of free GPUs: proportionally fair winners, each of whom pays with a part of what it won.

=========  ======================================================================
symbol     meaning
=========  ======================================================================
V_i(b)     1/ρ of app i with the bundle b
PF         disjoint bundles that maximise Π V_i, so Σ log V_i
c_i        hidden payment: Π V_k(PF) ÷ Π V_k(PF without i) over the others k
=========  ======================================================================

App i receives c_i of its bundle.  The more the others lose by its presence the less that is, which is why nobody gains
by a false bid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bid:
    """One row of a bid table: so many more GPUs of a type, and V of the app with them."""

    gpu_type: str
    gpus: int
    value: float


@dataclass(frozen=True, slots=True)
class Bidder:
    """An app with its bid table; ``nothing`` is V if it gets none of the free GPUs."""

    id: str
    nothing: float
    bids: tuple[Bid, ...]

    def log(self, bid: Bid | None) -> float:
        """Returns log V of a bid, or of getting nothing."""
        return math.log(bid.value if bid else self.nothing)


@dataclass(frozen=True, slots=True)
class Win:
    """A bundle of the PF allocation, and c, the part of it that its app receives."""

    bid: Bid
    kept: float

    @property
    def gpus(self) -> float:
        """GPUs after the hidden payment, not yet rounded to whole ones."""
        return self.kept * self.bid.gpus


Free = Mapping[str, int]
_MOST_STEPS = 60_000


def few_enough(bidders: Sequence[Bidder], free: Free) -> bool:
    """Tells whether all N + 1 allocations can be found exactly in a few hundredths of a second."""
    states = math.prod(gpus + 1 for gpus in free.values())
    return (len(bidders) + 1) * states * sum(len(each.bids) + 1 for each in bidders) <= _MOST_STEPS


def hold_exact(bidders: Sequence[Bidder], free: Free) -> dict[str, Win]:
    """Returns the winners by exact PF allocations: one with all bidders, and one without each winner."""
    won = best(bidders, free)
    wins = {}
    for winner in bidders:
        if winner.id not in won:
            continue
        others = [each for each in bidders if each is not winner]
        alone = best(others, free)
        loss = sum(each.log(won.get(each.id)) - each.log(alone.get(each.id)) for each in others)
        wins[winner.id] = Win(won[winner.id], min(math.exp(loss), 1.0))
    return wins


@dataclass(frozen=True, slots=True)
class _Partial:
    """The best way found to give away so many GPUs to the first bidders; a linked list."""

    value: float
    bid: tuple[str, Bid] | None = None
    before: _Partial | None = None


def best(bidders: Sequence[Bidder], free: Free) -> dict[str, Bid]:
    """Returns the PF allocation, by dynamic programming over the GPUs given away; of equals that with the fewest."""
    kinds = sorted(free)
    ways: dict[tuple[int, ...], _Partial] = {(0,) * len(kinds): _Partial(0.0)}
    for bidder in bidders:
        found: dict[tuple[int, ...], _Partial] = {}
        options = [(None, bidder.log(None)), *((bid, bidder.log(bid)) for bid in bidder.bids)]
        for used, way in ways.items():
            for bid, gain in options:
                after = _with(used, bid, kinds, free)
                if after is None or (after in found and found[after].value >= way.value + gain - 1e-12):
                    continue
                mark = (bidder.id, bid) if bid else None
                found[after] = _Partial(way.value + gain, mark, way)
        ways = found
    _, way = max(ways.items(), key=lambda item: (round(item[1].value, 9), -sum(item[0]), item[0]))
    won: dict[str, Bid] = {}
    at: _Partial | None = way
    while at is not None:
        if at.bid:
            won[at.bid[0]] = at.bid[1]
        at = at.before
    return won


def _with(used: tuple[int, ...], bid: Bid | None, kinds: Sequence[str], free: Free) -> tuple[int, ...] | None:
    """Returns the GPUs given away by type after one more bid; None if there are not so many."""
    if bid is None:
        return used
    if bid.gpu_type not in free:
        return None
    place = kinds.index(bid.gpu_type)
    total = used[place] + bid.gpus
    return (*used[:place], total, *used[place + 1 :]) if total <= free[bid.gpu_type] else None
