"""Themis's formulas and its auction on examples computed by hand."""

from __future__ import annotations

import math
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.jobs.kinds import Kind
from elastane.policies.allocation.eviction import Configuration
from elastane.policies.themis.auction import Bid, Bidder, Win, best, few_enough, hold_exact
from elastane.policies.themis.bids import Stand
from elastane.policies.themis.finish_time import App, visible
from elastane.policies.themis.greedy import hold_greedy
from elastane.policies.themis.tables import Table
from elastane.policies.view import ELASTIC, JobView, Request
from elastane.scheduling.abilities_by_kind import ABILITIES

AT_60 = App(age_s=60.0, left_s=280.0, total_s=400.0, demand=4, contention=2.0)
"""THE-1: 400 GPU s of work, of which 120 are done a minute after the start."""


@pytest.mark.parametrize(("gpus", "slowdown", "rho"), [(2, 1.0, 1.0), (4, 1.0, 0.65), (4, 2.0, 1.0)])
def test_rho_weighs_placement_against_size(gpus: int, slowdown: float, rho: float) -> None:
    """THE-1: 60 + 280/2 = 200 of T_id = 400/4·2 = 200; four GPUs far apart are worth two near each other."""
    assert AT_60.fair_s(4) == 200.0
    assert AT_60.rho(gpus / slowdown, 4) == pytest.approx(rho)


def test_a_restart_counts_into_rho() -> None:
    assert AT_60.rho(4.0, 4, restart_s=70.0) == pytest.approx(1.0)


def test_the_fair_time_of_a_job_that_cannot_use_its_share() -> None:
    """THE-5: 8 GPUs, demand 4, two apps: T_id = 400/4·2 = 200, though alone on half the cluster it takes 100."""
    assert App(0.0, 400.0, 400.0, demand=4, contention=2.0).fair_s(8) == 200.0
    assert App(0.0, 400.0, 400.0, demand=8, contention=2.0).fair_s(8) == 100.0


def test_nothing_is_ten_times_as_bad_as_the_least_bundle() -> None:
    """60 + 280 = 340 s on one GPU, 130 s for a gang of four."""
    assert AT_60.rho_without(1.0, 4) == pytest.approx(17.0)
    assert AT_60.rho_without(4.0, 4) == pytest.approx(6.5)


@pytest.mark.parametrize(("f", "seen"), [(0.8, [4]), (0.4, [4, 3, 2]), (0.0, [4, 3, 2, 1, 0]), (0.99, [4])])
def test_only_the_worst_off_bid(f: float, seen: list[int]) -> None:
    """THE-3: of ρ = .5, .9, 1.4, 2, 3 the worst ⌈(1 − f)·5⌉."""
    assert visible([0.5, 0.9, 1.4, 2.0, 3.0], f) == seen


def test_of_equals_the_first_to_arrive_bids() -> None:
    assert visible([1.0, 1.0, 1.0], 0.5) == [0, 1]


def bidder(name: str, nothing: float, *values: float) -> Bidder:
    """V of 0, 1, 2 … GPUs."""
    return Bidder(name, nothing, tuple(Bid("t4", gpus, value) for gpus, value in enumerate(values, start=1)))


@pytest.mark.parametrize("hold", [hold_exact, hold_greedy])
def test_the_winner_pays_what_the_other_loses(hold) -> None:
    """THE-2: (2, 0) has the product 1·.5; alone, 2 would have had V = 1, so c of 1 is .5 and it keeps one GPU."""
    one, two = bidder("1", 0.25, 0.5, 1.0), bidder("2", 0.5, 0.8, 1.0)
    won = hold([one, two], {"t4": 2})
    assert won.keys() == {"1"}
    assert won["1"].bid.gpus == 2
    assert won["1"].kept == pytest.approx(0.5)
    assert won["1"].gpus == pytest.approx(1.0)


@pytest.mark.parametrize("hold", [hold_exact, hold_greedy])
def test_who_takes_nothing_from_others_pays_nothing(hold) -> None:
    one, two = bidder("1", 0.25, 0.5), bidder("2", 0.5, 0.8)
    won = hold([one, two], {"t4": 3})
    assert {name: (win.bid.gpus, win.kept) for name, win in won.items()} == {"1": (1, 1.0), "2": (1, 1.0)}


def test_types_are_not_mixed() -> None:
    """Both want the one fast GPU; the product is larger if the second, to whom the slow one is worth less, has it."""
    one = Bidder("1", 0.1, (Bid("v100", 1, 1.0), Bid("k80", 1, 0.8)))
    two = Bidder("2", 0.1, (Bid("v100", 1, 1.0), Bid("k80", 1, 0.2)))
    won = best([one, two], {"k80": 1, "v100": 1, "t4": 1})
    assert {name: bid.gpu_type for name, bid in won.items()} == {"1": "k80", "2": "v100"}


def values(rng: Random, concave: bool) -> tuple[float, list[float]]:
    """V of nothing and of up to four GPUs; ``concave`` in log V."""
    gains = [rng.uniform(0.05, 1.0) for _ in range(rng.randint(1, 4))]
    if concave:
        gains.sort(reverse=True)
    logs = np.cumsum([rng.uniform(-2.0, 0.0), *gains])
    return math.exp(logs[0]), [math.exp(each) for each in logs[1:]]


def product_of(bidders: list[Bidder], won: dict[str, Bid]) -> float:
    return sum(each.log(won.get(each.id)) for each in bidders)


@given(st.integers(0, 10_000), st.booleans())
def test_allocations_are_as_good_as_trying_all(seed: int, concave: bool) -> None:
    """The exact one always, the greedy one and its payments where no app's gains grow with the GPUs."""
    rng, bidders = Random(seed), []
    for number in range(rng.randint(1, 4)):
        nothing, more = values(rng, concave)
        bidders.append(bidder(str(number), nothing, *more))
    free = {"t4": rng.randint(1, 6)}
    ways = product(*([None, *each.bids] for each in bidders))
    possible = [way for way in ways if sum(bid.gpus for bid in way if bid) <= free["t4"]]
    most = max(sum(each.log(bid) for each, bid in zip(bidders, way, strict=True)) for way in possible)
    exact, greedy = hold_exact(bidders, free), hold_greedy(bidders, free)
    assert product_of(bidders, {name: win.bid for name, win in exact.items()}) == pytest.approx(most)
    assert sum(win.bid.gpus for win in greedy.values()) <= free["t4"]
    for win in (*exact.values(), *greedy.values()):
        assert 0.0 < win.kept <= 1.0
    if concave:
        assert product_of(bidders, {name: win.bid for name, win in greedy.items()}) == pytest.approx(most)
        assert {i: win.kept for i, win in greedy.items()} == pytest.approx(
            {i: win.kept for i, win in exact.items()}
        )


def test_few_bidders_are_served_exactly_and_many_are_not() -> None:
    assert few_enough([bidder("1", 0.25, 0.5, 1.0)] * 4, {"t4": 8})
    assert not few_enough([bidder("1", 0.25, 0.5, 1.0)] * 200, {"t4": 1024})


def stand(abilities, workers: int, least: int) -> Stand:
    sizes = (workers,) if abilities == ABILITIES[Kind.RIGID] else tuple(range(least, workers + 1))
    job = JobView("j", 0.0, Request(workers, least, workers), abilities=abilities)
    choices = tuple(Configuration("t4", size) for size in sizes)
    app = App(0.0, 100.0, 100.0, workers, 1.0)
    return Stand(Table(job, app, choices, np.array(sizes, dtype=float), None, 0.0, 1.0), None, 0.0, 8)


@pytest.mark.parametrize(
    ("abilities", "least", "kept", "workers"),
    [
        (ELASTIC, 1, 0.9, 3),
        (ELASTIC, 2, 0.3, 2),
        (ELASTIC, 1, 0.01, 1),
        (ABILITIES[Kind.RIGID], 4, 0.3, 4),
        (ELASTIC, 1, 1.0, 4),
    ],
)
def test_payments_are_in_whole_gpus_and_leave_the_least_size(abilities, least, kept, workers) -> None:
    """Of four GPUs won: 3.6 are three, 1.2 are the two without which it cannot run, and a gang pays nothing."""
    assert stand(abilities, 4, least).received(Win(Bid("t4", 4, 1.0), kept)) == workers
