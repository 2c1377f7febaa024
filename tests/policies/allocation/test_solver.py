"""Pollux's count problem against exact oracles, and the layout of its answer on nodes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import Bounds, LinearConstraint, milp

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.allocation.layout import lay_out
from elastane.policies.allocation.objective import contribution
from elastane.policies.allocation.problem import Problem
from elastane.policies.allocation.solve_and_compare import objective
from elastane.policies.allocation.solver import _climb_hulls, _dynamic_programme, best_counts, hull_steps
from elastane.policies.pollux import Pollux
from helpers.layouts import check_layout, crowded_clusters
from helpers.pollux_views import job, problem, view

Solver = type(_climb_hulls)


def value(values: FloatArray, counts: IntArray) -> float:
    return float(values[np.arange(len(values)), counts].sum())


def brute_force(values: FloatArray, total: int) -> float:
    jobs, sizes = values.shape
    fitting = (c for c in product(range(sizes), repeat=jobs) if sum(c) <= total)
    return max(value(values, np.array(c, dtype=np.int64)) for c in fitting)


def milp_optimum(values: FloatArray, total: int) -> float:
    """One binary variable per (job, allowed size)."""
    job_of, size_of = np.nonzero(np.isfinite(values))
    gain = values[job_of, size_of]
    one_each = (job_of[None, :] == np.arange(len(values))[:, None]).astype(float)
    found = milp(
        -gain,
        integrality=np.ones(len(gain)),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(one_each, 1, 1),
            LinearConstraint(size_of[None, :].astype(float), 0, total),
        ],
        options={"mip_rel_gap": 1e-6},
    )
    assert found.success
    return float(-found.fun)


@st.composite
def count_problems(draw: st.DrawFn) -> tuple[FloatArray, int]:
    """Any values, with sizes forbidden at random; size 0 is always allowed."""
    jobs, sizes = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    values = draw(arrays(np.float64, (jobs, sizes), elements=st.floats(-100, 100)))
    forbidden = draw(arrays(np.bool_, (jobs, sizes)))
    forbidden[:, 0] = False
    return np.where(forbidden, -np.inf, values), draw(st.integers(0, 12))


# ---- counts ----------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(count_problems())
def test_the_dynamic_programme_is_exact(case: tuple[FloatArray, int]) -> None:
    values, total = case
    counts = _dynamic_programme(values, total)
    assert counts.sum() <= total
    assert value(values, counts) == pytest.approx(brute_force(values, total))


@settings(max_examples=150)
@given(count_problems())
def test_climbing_hulls_loses_less_than_the_largest_step(case: tuple[FloatArray, int]) -> None:
    values, total = case
    counts = _climb_hulls(values, total)
    assert counts.sum() <= total
    finite = np.where(np.isfinite(values), values, np.nan)
    step = float(np.max(np.nanmax(finite, axis=1) - finite[:, 0]))
    best = brute_force(values, total)
    assert best - max(step, 0.0) - 1e-9 <= value(values, counts) <= best + 1e-9


@settings(max_examples=100)
@given(st.integers(1, 6), st.integers(2, 12), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_climbing_hulls_is_exact_for_falling_gains(jobs: int, sizes: int, total: int, seed: int) -> None:
    gains = np.sort(np.random.default_rng(seed).uniform(0.1, 1.0, (jobs, sizes - 1)), axis=1)[:, ::-1]
    values = np.hstack([np.zeros((jobs, 1)), np.cumsum(gains, axis=1)])
    assert value(values, _climb_hulls(values, total)) == pytest.approx(
        value(values, _dynamic_programme(values, total))
    )


@pytest.mark.parametrize("solve", [_dynamic_programme, _climb_hulls])
@settings(max_examples=100)
@given(case=count_problems())
def test_forbidden_sizes_are_never_chosen(solve: Solver, case: tuple[FloatArray, int]) -> None:
    values, total = case
    assert np.isfinite(value(values, solve(values, total)))


@pytest.mark.parametrize("solve", [_dynamic_programme, _climb_hulls])
def test_a_job_with_one_allowed_size_gets_it_whatever_the_others_lose(solve: Solver) -> None:
    values = np.full((3, 9), -np.inf)
    values[0, 6] = 0.0
    values[1:] = np.arange(9) * 100.0
    assert solve(values, 8)[0] == 6


def test_no_jobs_and_no_gpus() -> None:
    assert best_counts(np.zeros((0, 4)), 8).shape == (0,)
    assert best_counts(np.array([[0.0, 1.0]]), 0).tolist() == [0]


@pytest.mark.parametrize("p", [-1.0, 1.0])
@pytest.mark.parametrize(("jobs", "gpus"), [(12, 32), (25, 64), (70, 128)])
def test_the_answer_is_within_a_percent_of_an_integer_programme(jobs: int, gpus: int, p: float) -> None:
    """The largest case is beyond the dynamic programme, so it also tests the switch to hulls."""
    rng = np.random.default_rng(jobs)
    nodes = [4] * (gpus // 4)
    crowd = []
    for i in range(jobs):
        held = [(f"n{i}", int(rng.integers(1, 5)))] if i < len(nodes) and rng.random() < 0.7 else []
        least = int(rng.choice([1, 1, 1, 2, 3]))
        held = held if not held or held[0][1] >= least else []
        crowd.append(
            job(f"j{i}", float(rng.uniform(0.01, 0.4)), held, least=least, restarts=int(rng.integers(0, 20)))
        )
    values = problem(crowd, nodes, p).count_values()
    counts = best_counts(values, gpus)
    assert counts.sum() <= gpus
    best = milp_optimum(values, gpus)
    assert best - 0.01 * abs(best) <= value(values, counts) <= best + 1e-6 * abs(best)


# ---- layouts ---------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(crowded_clusters())
def test_a_layout_keeps_the_rules(case: tuple[Problem, IntArray]) -> None:
    made, counts = case
    check_layout(made, lay_out(made, counts))


@settings(max_examples=100, deadline=None)
@given(crowded_clusters())
def test_jobs_whose_count_stays_keep_their_place(case: tuple[Problem, IntArray]) -> None:
    made, counts = case
    rows = lay_out(made, counts)
    for j in np.flatnonzero((counts > 0) & (counts == made.held_total)):
        now = {int(n): int(made.held[j, n]) for n in np.flatnonzero(made.held[j])}
        assert rows[int(j)] == now


@settings(max_examples=100, deadline=None)
@given(crowded_clusters())
def test_pinned_jobs_are_first_and_untouched(case: tuple[Problem, IntArray]) -> None:
    made, counts = case
    rows = lay_out(made, counts)
    pinned = np.flatnonzero(made.pinned)
    assert pinned.tolist() == list(range(len(pinned)))
    for j in pinned.tolist():
        assert counts[j] == made.held_total[j]
        assert rows[j] == {int(n): int(made.held[j, n]) for n in np.flatnonzero(made.held[j])}


def test_a_job_larger_than_a_node_is_spread_and_others_fill_the_gaps() -> None:
    made = problem([job("wide", 0.0), job("small", 0.9), job("tiny", 0.9)], [4, 4])
    order = [j.id for j in made.jobs]
    counts = np.array([{"wide": 6, "small": 1, "tiny": 1}[name] for name in order])
    rows = {order[j]: row for j, row in lay_out(made, counts).items()}
    assert sorted(rows["wide"].values()) == [2, 4]
    assert sum(map(len, rows.values())) == 4


def test_two_distributed_jobs_never_meet() -> None:
    made = problem([job("a", 0.0), job("b", 0.0)], [4, 4, 4])
    rows = lay_out(made, np.array([6, 6]))
    first, second = rows[0], rows[1]
    assert len(first) == 1 or len(second) == 1 or not set(first) & set(second)


def test_a_scattered_job_is_packed_when_that_pays_for_the_restart() -> None:
    scattered = job("a", 0.5, [("n0", 1), ("n1", 1)], most=2)
    rows = lay_out(problem([scattered], [4, 4]), np.array([2]))
    assert list(rows[0].values()) == [2]


# ---- the policy ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(crowded_clusters(), st.sampled_from([-10.0, -1.0, 0.0, 1.0]))
def test_a_decision_is_never_worse_than_staying(case: tuple[Problem, IntArray], p: float) -> None:
    shown, nodes = case[0].jobs, case[0].node_gpus.tolist()
    snapshot = view(shown, nodes)
    plan = Pollux(p=p).decide(snapshot)
    made = problem(shown, nodes, p)
    rows = {
        j: {made.node_ids.index(part.node): part.workers for part in plan.intent.grants[known.id].slices}
        for j, known in enumerate(made.jobs)
        if known.id in plan.intent.grants
    }
    assert objective(made, rows) >= float(contribution(made.current_speedups(), p).sum()) - 1e-9
    assert plan == Pollux(p=p).decide(snapshot)


@given(st.integers(1, 8), st.integers(9, 24), st.integers(0, 10_000))
def test_both_ways_to_find_hulls_take_the_same_steps(jobs: int, sizes: int, seed: int) -> None:
    """Few jobs go through plain arithmetic, many through arrays; padding jobs switches from one to the other."""
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.normal(0.3, 1.0, (jobs, sizes)), axis=1)
    values[rng.random((jobs, sizes)) < 0.2] = -np.inf
    values[:, 0] = 0.0
    idle = np.full((sizes, sizes), -np.inf)
    idle[:, 0] = 0.0
    few = hull_steps(values, np.zeros(jobs, dtype=np.int64))
    many = hull_steps(np.vstack([values, idle]), np.zeros(jobs + sizes, dtype=np.int64))
    as_sets = [sorted(zip(o.tolist(), s.tolist(), t.tolist(), strict=True)) for o, s, _, t in (few, many)]
    assert as_sets[0] == as_sets[1]
