"""How often to measure: as often as the budget allows, and no more."""

from __future__ import annotations

from elastane.train.adapt.pacing import Pacing


def paced(costs_s: list[float], step_s: float, budget: float = 0.03) -> Pacing:
    pacing = Pacing(budget)
    for cost_s in costs_s:
        pacing.took(step_s + cost_s, cost_s)
    return pacing


def test_the_wish_is_the_smallest_stride_within_the_budget() -> None:
    # 3 % of a second is 30 ms: 100 ms of measuring must be spread over 4 steps.
    assert paced([0.1], 1.0).wish(pairs=False) == 4
    assert paced([0.03], 1.0).wish(pairs=False) == 1


def test_pairs_of_steps_cost_twice() -> None:
    assert paced([0.1], 1.0).wish(pairs=True) == 7


def test_dear_and_cheap_measurements_are_averaged() -> None:
    assert paced([0.01, 0.01, 0.19], 1.0).wish(pairs=False) == 3


def test_one_long_pause_does_not_make_measuring_look_cheap() -> None:
    pacing = paced([0.1] * 5, 1.0)
    pacing.took(500.0, None)
    assert pacing.wish(pairs=False) == 4


def test_without_a_measurement_the_stride_stays() -> None:
    pacing = Pacing(0.03)
    pacing.stride = 6
    pacing.took(1.0, None)
    assert pacing.wish(pairs=False) == 6


def test_even_the_dearest_measurement_is_made_now_and_then() -> None:
    assert paced([1e6], 1e-9).wish(pairs=False) == 1000
