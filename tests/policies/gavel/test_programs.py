"""Gavel's objectives on problems that were solved by hand (GAV-1, 2, 3, 5 and 6 of the specification)."""

from __future__ import annotations

import numpy as np
import pytest

from elastane.policies.gavel.fairness import Hierarchical, Inner, MaxMinFairness, WaterFilling, progress
from elastane.policies.gavel.finish_time import FinishTimeFairness, Makespan
from elastane.policies.gavel.linear import Lower, highest_level, most_value
from elastane.policies.gavel.objective import Objective
from elastane.policies.gavel.problem import Problem
from elastane.policies.gavel.sums import Fifo, MaxThroughput, MinCost

CLOSE = 1e-3
"""The centre stays a ten-thousandth away from the optimum."""


def problem(rates: list[list[float]], capacity: list[float], **other: list[float]) -> Problem:
    arrays = {name: np.array(values, dtype=np.float64) for name, values in other.items()}
    if "entity" in arrays:
        arrays["entity"] = arrays["entity"].astype(np.int64)
    return Problem.of(np.array(rates, dtype=np.float64), np.array(capacity, dtype=np.float64), **arrays)


def check_feasible(case: Problem, x: np.ndarray) -> None:
    assert (x >= -1e-9).all()
    assert (x.sum(axis=1) <= 1.0 + 1e-9).all()
    assert ((case.width[:, None] * x).sum(axis=0) <= case.capacity * (1.0 + 1e-9)).all()
    assert (x[case.rates <= 0.0] <= 1e-9).all()


def test_gav1_least_attained_service_knows_who_gains_from_the_fast_type() -> None:
    # 1 V100 + 1 K80, T = [[4,1],[3,2],[2,2]].  A third of each type gives 5/3, 5/3, 4/3.  J0 takes 25/51 of the V100,
    # J1 the other 26/51 and 11/51 of the K80, J2 40/51 of the K80: 100/51, (78+22)/51, 80/51, so 20/17 of a third for
    # each.  Both GPUs are full, and exchanging time between any two would only help one of them.
    case = problem([[4, 1], [3, 2], [2, 2]], [1, 1])
    x = MaxMinFairness().shares(case)
    check_feasible(case, x)
    reached = case.effective(x) / case.equal_share()
    assert reached == pytest.approx([20 / 17] * 3, rel=CLOSE)
    assert x == pytest.approx(np.array([[25 / 51, 0], [26 / 51, 11 / 51], [0, 40 / 51]]), abs=5e-3)
    # Without knowing who is fast where, a third of the time on each type is all that can be promised: 1.0.
    blind = problem([[1, 1]] * 3, [1, 1])
    even = MaxMinFairness().shares(blind)
    assert blind.effective(even) / blind.equal_share() == pytest.approx([1.0] * 3, rel=CLOSE)


def test_gav2_water_filling_uses_what_least_attained_service_leaves_open() -> None:
    # One type, 4 GPUs, widths 1 and 4.  Progress is w·X over a half share: X0 ≤ 1 bounds the level, at which the wide
    # job needs a quarter of the time and could have three quarters.
    case = problem([[1], [1]], [4], width=[1, 4])
    gain = progress(case)
    level = highest_level(case, Lower(gain, np.ones(2), np.zeros(2)))
    assert level.z == pytest.approx(gain[0, 0])
    wide = most_value(case, np.array([[0.0], [1.0]]), Lower(gain, np.zeros(2), np.full(2, level.z)))
    assert wide.x[1, 0] == pytest.approx(0.75)
    narrow = most_value(case, np.array([[0.0], [-1.0]]), Lower(gain, np.zeros(2), np.full(2, level.z)))
    assert narrow.x[1, 0] == pytest.approx(0.25)
    assert 0.25 < MaxMinFairness().shares(case)[1, 0] < 0.75
    assert WaterFilling().shares(case)[:, 0] == pytest.approx([1.0, 0.75], abs=CLOSE)


@pytest.mark.parametrize(
    ("inner", "expected"), [(Inner.FAIRNESS, [0.5, 0.5, 1.0]), (Inner.FIFO, [1.0, 0.0, 1.0])]
)
def test_gav3_what_an_entity_cannot_use_goes_back_to_the_others(inner: Inner, expected: list[float]) -> None:
    # 2 GPUs; E1 {a, b} has weight 1, E2 {c} weight 3.  c can use one GPU only, and its excess goes to a and b: shared
    # if E1 is fair inside, all to the older one if it is first come, first served.
    case = problem([[1]] * 3, [2], entity=[0, 0, 1], entity_weight=[1, 3])
    assert Hierarchical(inner).shares(case)[:, 0] == pytest.approx(expected, abs=CLOSE)


def test_nobody_falls_behind_when_the_weight_of_an_entity_goes_to_fewer_jobs() -> None:
    # One GPU of type A, two of B.  The first job can use A only, the second both, the others B only.  Whoever is frozen
    # first leaves its weight to its companion, but nobody may end below the first level, which all can have.
    case = problem([[1, 0], [1, 1], [0, 1], [0, 1]], [1, 2], entity=[0, 0, 1, 1], entity_weight=[1, 1])
    x = Hierarchical().shares(case)
    check_feasible(case, x)
    gain = progress(case)
    level = highest_level(case, Lower(gain, np.full(4, 0.5), np.zeros(4)))
    assert ((gain * x).sum(axis=1) >= 0.5 * level.z * (1.0 - CLOSE)).all()


def test_gav5_makespan() -> None:
    # T = [[4,1],[2,1]], 100 steps each.  With all of both types: J0 gets 4a + (1−a), J1 2(1−a) + a; equal at a = 1/4:
    # 7/4 steps per second, so H = 400/7.
    case = problem([[4, 1], [2, 1]], [1, 1], remaining=[100, 100])
    x = Makespan().shares(case)
    assert x == pytest.approx(np.array([[0.25, 0.75], [0.75, 0.25]]), abs=CLOSE)
    assert 100 / case.effective(x) == pytest.approx([400 / 7] * 2, rel=CLOSE)


@pytest.mark.parametrize(
    ("deadline_h", "expected", "dollars"), [(3.0, [0.0, 1.0], 1.0), (1.0, [0.5, 0.5], 1.75)]
)
def test_gav6_the_cheapest_way_to_meet_a_deadline(
    deadline_h: float, expected: list[float], dollars: float
) -> None:
    # V100: 3 steps/s at $3/h; K80: 1 step/s at $0.5/h; 7200 steps.  The K80 gives most steps per dollar and makes
    # 3 hours; for 1 hour 2 steps/s are needed, half of the time on each.
    case = problem([[3, 1]], [1, 1], remaining=[7200], left_s=[deadline_h * 3600], price=[3.0, 0.5])
    x = MinCost().shares(case)
    assert x[0] == pytest.approx(expected, abs=1e-5)
    hours = 7200 / case.effective(x)[0] / 3600
    assert hours * float(x[0] @ case.price) == pytest.approx(dollars, rel=1e-5)


def test_gav6_who_only_lowers_the_ratio_stays_unscheduled() -> None:
    # The second job does a tenth of the steps for the same money.
    case = problem([[1.0], [0.1]], [2], price=[0.5])
    assert MinCost().shares(case)[:, 0] == pytest.approx([1.0, 0.0])


def test_a_deadline_out_of_reach_does_not_make_the_others_wait_for_a_solution() -> None:
    case = problem([[1.0], [1.0]], [1], remaining=[7200, 7200], left_s=[3600, np.inf], price=[0.5])
    assert MinCost().shares(case)[0, 0] == pytest.approx(1.0, abs=1e-5)


def test_finish_time_fairness_equalises_the_ratios_of_equal_jobs() -> None:
    # Two equal jobs, one of which has waited as long as both need alone: it gets the larger share, and no ρ exceeds the
    # smallest that is possible, where both are equal.
    case = problem([[1.0], [1.0]], [1], remaining=[100, 100], elapsed_s=[100, 0], isolated_s=[0, 0])
    x = FinishTimeFairness().shares(case)
    ratio = (case.elapsed_s + 100 / case.effective(x)) / (100 / case.isolated())
    assert x[0, 0] > x[1, 0]
    assert ratio[0] == pytest.approx(ratio[1], rel=CLOSE)
    # By hand: 100 + 100/a = 100/(1−a) for a = (√5 − 1)/2.
    assert x[0, 0] == pytest.approx((np.sqrt(5) - 1) / 2, abs=CLOSE)


def test_total_throughput_gives_the_fast_type_to_who_gains_most() -> None:
    case = problem([[4, 1], [3, 2], [2, 2]], [1, 1])
    x = MaxThroughput().shares(case)
    assert case.effective(x).sum() == pytest.approx(6.0)


def test_fifo_serves_the_earlier_job_on_its_fastest_type() -> None:
    case = problem([[4, 1], [4, 1]], [1, 1])
    assert Fifo().shares(case) == pytest.approx(np.array([[1.0, 0.0], [0.0, 1.0]]))


OBJECTIVES = [
    MaxMinFairness(), WaterFilling(), FinishTimeFairness(), Makespan(), MaxThroughput(), MinCost(), Fifo(),
    Hierarchical(), Hierarchical(Inner.FIFO),
]  # fmt: skip


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_every_allocation_is_feasible_also_with_types_that_some_cannot_use(
    objective: Objective, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    case = Problem.of(
        rng.uniform(0.5, 5.0, (n, k)) * (rng.random((n, k)) < 0.8),
        rng.integers(4, 9, k).astype(np.float64),
        rng.choice([1.0, 2.0, 4.0], n),
        weight=rng.choice([1.0, 2.0], n),
        remaining=rng.uniform(10.0, 1e5, n),
        elapsed_s=rng.uniform(0.0, 1e4, n),
        left_s=np.where(rng.random(n) < 0.5, rng.uniform(1.0, 1e5, n), np.inf),
        entity=rng.integers(0, 2, n),
        entity_weight=np.array([1.0, 3.0]),
    )
    check_feasible(case, objective.shares(case))


@pytest.mark.parametrize(
    "objective", [MaxMinFairness(), WaterFilling(), FinishTimeFairness(), Makespan()], ids=str
)
def test_equal_jobs_get_equal_shares_and_merging_them_changes_nothing(objective: Objective) -> None:
    once = problem([[4, 1], [3, 2], [3, 2], [3, 2]], [1, 1], width=[1, 1, 1, 1])
    x = objective.shares(once)
    assert x[1] == pytest.approx(x[2], abs=1e-9)
    other = problem([[4, 1], [3, 2], [3, 2], [3, 2 + 1e-7]], [1, 1])
    assert objective.shares(other) == pytest.approx(x, abs=1e-3)
