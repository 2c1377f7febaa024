"""Sia's integer program: hand-computed optima, and the optimum by trying everything on many small instances."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from elastane.policies.allocation.eviction import Configuration
from elastane.policies.sia.goodputs import restart_factor
from elastane.policies.sia.program import Candidate, choose, costs

A1, A2 = Configuration("a", 1), Configuration("a", 2)
B1, B2, B4 = (Configuration("b", gpus) for gpus in (1, 2, 4))


def candidate(*goodput: float, choices=(A1, A2, B1, B2, B4), present=None, fixed=False) -> Candidate:
    return Candidate(choices, np.array(goodput), present, fixed)


@pytest.mark.parametrize("p", [1.0, -0.5])
def test_the_table_of_the_paper(p: float) -> None:
    """SIA-1: 2 GPUs of A, 4 of B: J1 → B4 and J2 → A2, worth 3.5 + 2.1 = 5.6 (swapped: 1.5 + 3.6 = 5.1)."""
    rows = [candidate(1.0, 1.5, 1.5, 2.5, 3.5), candidate(1.2, 2.1, 1.0, 1.9, 3.6)]
    assert choose(rows, {"a": 2, "b": 4}, p, 1.1) == [4, 1]


@pytest.mark.parametrize(
    ("p", "penalty", "gpus"), [(1.0, 1.1, [2, 1, 1]), (-0.5, 1.1, [2, 2, 0]), (-0.5, 1.3, [2, 1, 1])]
)
def test_the_power_decides_who_starves(p: float, penalty: float, gpus: list[int]) -> None:
    """SIA-3, 4 GPUs of one type.  p = −0.5: 2,2,0 costs .716 + .791 + 1.1 = 2.607, 2,1,1 costs .716 + 1 + 1 = 2.716.

    The third job is left out because that costs only .1 more than running it; above λ = 1.21 it is not.
    """
    rows = [candidate(*row, choices=(B1, B2, B4)) for row in ((1, 1.95, 3.8), (1, 1.6, 2.2), (1, 1.3, 1.5))]
    chosen = choose(rows, {"b": 4}, p, penalty)
    assert [0 if at is None else (1, 2, 4)[at] for at in chosen] == gpus


@pytest.mark.parametrize(("age_s", "factor", "moves"), [(600.0, 4 / 7, False), (6000.0, 58 / 61, True)])
def test_restarts_so_far_discount_the_next_one(age_s: float, factor: float, moves: bool) -> None:
    """SIA-2: S = 100, N = 2, goodput 2 now against 3 elsewhere: 3 · .571 < 2 stays, 3 · .951 > 2 moves."""
    assert restart_factor(age_s, 2, 100.0) == pytest.approx(factor)
    row = candidate(2.0, 3.0 * factor, choices=(B1, B2), present=0)
    assert choose([row], {"b": 2}, -0.5, 1.1) == [1 if moves else 0]


def test_a_restart_that_was_never_worth_it_is_worth_nothing() -> None:
    assert restart_factor(50.0, 3, 100.0) == 1.0  # younger than one restart: no discount
    assert restart_factor(250.0, 3, 100.0) == 0.0
    assert restart_factor(0.0, 0, 0.0) == 1.0


def test_equal_solutions_leave_jobs_where_they_are() -> None:
    rows = [candidate(1.0, 1.0, choices=(A1, B1), present=here) for here in (1, 0)]
    assert choose(rows, {"a": 1, "b": 1}, -0.5, 1.1) == [1, 0]


def random_instance(rng: Random) -> tuple[list[Candidate], dict[str, int], float, float]:
    gpus = {"a": rng.randint(1, 4), "b": rng.randint(0, 5)}
    every = [Configuration(kind, size) for kind in gpus for size in (1, 2, 4)]
    rows = []
    free = dict(gpus)
    for _ in range(rng.randint(1, 5)):
        choices = tuple(sorted(rng.sample(every, rng.randint(1, 4)), key=repr))
        goodput = np.array([rng.choice([0.0, rng.uniform(1.0, 6.0), 1.0]) for _ in choices])
        present = rng.choice([None, *range(len(choices))])
        fixed = False
        if present is not None and goodput[present] > 0 and rng.random() < 0.3:
            held = choices[present]
            fixed = free[held.gpu_type] >= held.gpus
            free[held.gpu_type] -= held.gpus if fixed else 0
        rows.append(Candidate(choices, goodput, present, fixed))
    return rows, gpus, rng.choice([-2.0, -0.5, 0.5, 1.0]), rng.choice([0.0, 1.1, 3.0])


def best_by_trying(rows: list[Candidate], gpus: dict[str, int], p: float, penalty: float) -> float:
    tables = [costs(row, p, penalty) for row in rows]
    best = np.inf
    for picks in product(*([None, *range(len(row.choices))] for row in rows)):
        if any(row.fixed and at != row.present for row, at in zip(rows, picks, strict=True)):
            continue
        taken = [
            (row.choices[at], table[at])
            for row, table, at in zip(rows, tables, picks, strict=True)
            if at is not None
        ]
        fits = all(sum(c.gpus for c, _ in taken if c.gpu_type == kind) <= n for kind, n in gpus.items())
        best = min(best, sum(cost for _, cost in taken)) if fits else best
    return float(best)


@pytest.mark.parametrize("seed", range(300))
def test_the_solver_finds_the_optimum_of_trying_everything(seed: int) -> None:
    rows, gpus, p, penalty = random_instance(Random(seed))
    chosen = choose(rows, gpus, p, penalty)
    taken = [(row, at) for row, at in zip(rows, chosen, strict=True) if at is not None]
    for kind, number in gpus.items():
        assert sum(r.choices[at].gpus for r, at in taken if r.choices[at].gpu_type == kind) <= number
    assert all(at == row.present for row, at in zip(rows, chosen, strict=True) if row.fixed)
    found = sum(float(costs(row, p, penalty)[at]) for row, at in taken)
    assert found == pytest.approx(best_by_trying(rows, gpus, p, penalty), abs=1e-6)
