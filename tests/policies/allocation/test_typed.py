"""The count problem with several accelerator types, against exact answers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from elastane.models.speed import FloatArray
from elastane.policies.allocation.objective import contribution
from elastane.policies.allocation.typed import Division, best_division

NOT = -np.inf


def worth(values: list[FloatArray], found: Division) -> float:
    return float(sum(values[k][j, c] for j, (k, c) in enumerate(zip(found.kinds, found.counts, strict=True))))


def check_room(found: Division, totals: tuple[int, ...]) -> None:
    for kind, total in enumerate(totals):
        assert found.counts[found.kinds == kind].sum() <= total


@pytest.mark.parametrize("p", [1.0, -0.5])
def test_published_table(p: float) -> None:
    """SIA-1: types A (2 GPUs) and B (4 GPUs): J1 takes the four, J2 the two, 5.6 together."""
    tables = [
        np.array([[0.0, 1.0, 1.5], [0.0, 1.2, 2.1]]),
        np.array([[0.0, 1.5, 2.5, NOT, 3.5], [0.0, 1.0, 1.9, NOT, 3.6]]),
    ]
    values = [np.where(np.isfinite(t), contribution(np.maximum(t, 0.0), p), NOT) for t in tables]
    found = best_division(values, (2, 4))
    assert found.kinds.tolist() == [1, 0]
    assert found.counts.tolist() == [4, 2]


def random_values(rng: np.random.Generator, jobs: int, totals: tuple[int, ...]) -> list[FloatArray]:
    """Jobs of very different worth, limits and scaling, that differ in which type suits them."""
    price, power = 10.0 ** rng.uniform(-1, 1, jobs), rng.uniform(0.2, 1.0, jobs)
    least, values = rng.choice([1, 1, 1, 2, 4], jobs), []
    for total in totals:
        sizes = np.arange(total + 1)
        most = np.minimum(rng.choice([1, 2, 4, 8, 64], jobs), total)
        table = (price * np.exp(rng.normal(0.0, 0.8, jobs)))[:, None] * sizes ** power[:, None]
        allowed = (sizes == 0) | ((sizes >= least[:, None]) & (sizes <= most[:, None]))
        values.append(np.where(allowed, table, NOT))
    return values


def exact(values: list[FloatArray], totals: tuple[int, ...]) -> float:
    """By integer programming over (job, type, size)."""
    jobs = len(values[0])
    columns = [
        (j, k, s, float(table[j, s]))
        for k, table in enumerate(values)
        for j, s in product(range(jobs), range(1, table.shape[1]))
        if np.isfinite(table[j, s])
    ]
    matrix = np.zeros((jobs + len(totals), len(columns)))
    for column, (j, k, s, _) in enumerate(columns):
        matrix[j, column], matrix[jobs + k, column] = 1.0, s
    room = LinearConstraint(matrix, -np.inf, np.concatenate([np.ones(jobs), totals]))
    found = milp(
        [-v for *_, v in columns], constraints=room, bounds=Bounds(0, 1), integrality=np.ones(len(columns))
    )
    return float(-found.fun)


@pytest.mark.parametrize(("jobs", "totals"), [(3, (2, 4)), (6, (4, 8)), (6, (4, 4, 8)), (20, (16, 8))])
def test_small_problems_are_solved_nearly_exactly(jobs: int, totals: tuple[int, ...]) -> None:
    rng = np.random.default_rng(jobs)
    gaps = []
    for _ in range(25):
        values = random_values(rng, jobs, totals)
        found = best_division(values, totals)
        check_room(found, totals)
        gaps.append(1.0 - worth(values, found) / exact(values, totals))
    assert max(gaps) < 0.03
    assert np.mean(gaps) < 0.005


def test_many_jobs_come_near_the_bound_of_the_dual() -> None:
    """Each alike, so that ties abound: with k^0.5 the best is to spread over both types."""
    values = [np.tile(np.sqrt(np.arange(65.0)), (100, 1)) for _ in range(2)]
    found = best_division(values, (64, 64))
    check_room(found, (64, 64))
    assert worth(values, found) >= 0.97 * (72 + 28 * np.sqrt(2.0))


def test_a_job_that_must_stay_stays_and_the_others_make_room() -> None:
    values = [np.array([[0.0, NOT, NOT], [0.0, 5.0, 9.0]]), np.array([[NOT, NOT, 1.0], [0.0, 6.0, 11.0]])]
    found = best_division(values, (2, 2))
    assert found.kinds.tolist() == [1, 0]
    assert found.counts.tolist() == [2, 2]


def test_a_job_far_above_the_rest_gets_what_it_wants() -> None:
    """What is owed counts a thousand times as much, and up to the last GPU of it."""
    rng = np.random.default_rng(4)
    values = random_values(rng, 30, (16, 8))
    values[0][7], values[1][7] = 1e4 * np.arange(17), NOT
    values[1][7, 0] = 0.0
    found = best_division(values, (16, 8))
    assert (found.kinds[7], found.counts[7]) == (0, 16)


def test_nobody_gets_nothing() -> None:
    found = best_division([np.zeros((0, 3)), np.zeros((0, 5))], (2, 4))
    assert found.counts.size == found.kinds.size == 0
