"""Sizes that fit together, and room made for jobs that found none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from elastane.models.speed import IntArray
from elastane.policies.allocation import multi_type
from elastane.policies.allocation.defragment import tidied
from elastane.policies.allocation.layout import lay_out
from elastane.policies.allocation.packing import fitting_below, packing
from elastane.policies.allocation.problem import Problem
from elastane.policies.allocation.solve_and_compare import objective
from helpers.layouts import check_layout, crowded_clusters
from helpers.pollux_views import job, problem


def allowed(made: Problem, row: int, *, within: bool = True) -> list[int]:
    values = packing(made, made.count_values(), within=within)
    return np.flatnonzero(np.isfinite(values[row])).tolist()


def test_powers_of_two_on_a_node_and_whole_nodes_beyond() -> None:
    sizes = np.arange(14)
    below = fitting_below(sizes, np.array([4, 4, 4]))
    assert below.tolist() == [0, 1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12]
    assert fitting_below(sizes, np.array([4, 0, 4])).tolist() == below.tolist()
    assert fitting_below(sizes, np.array([4, 4, 4]), within=False).tolist()[:6] == [0, 1, 2, 3, 4, 4]


def test_nodes_of_other_shapes() -> None:
    sizes = np.arange(8)
    assert fitting_below(sizes, np.array([3, 3])).tolist() == [0, 1, 2, 3, 3, 3, 6, 6]
    assert fitting_below(sizes, np.array([2, 4])).tolist() == sizes.tolist()
    assert fitting_below(sizes, np.array([], dtype=np.int64)).tolist() == sizes.tolist()


def test_what_a_job_holds_or_asks_for_it_may_have() -> None:
    holds = job("a", grant=[("n0", 3)])
    made = problem([holds, job("b", most=7), job("c", least=3, most=8)], [4, 4])
    row = {each.id: number for number, each in enumerate(made.jobs)}
    assert allowed(made, row["a"]) == [0, 1, 2, 3, 4, 8]
    assert allowed(made, row["b"]) == [0, 1, 2, 4, 7]
    assert allowed(made, row["c"]) == [0, 3, 4, 8]


def test_no_gpu_is_idle_for_the_sake_of_order() -> None:
    made = problem([job("a", 0.01), job("stays", grant=[("n0", 1)], preemptible=False, most=1)], [4], p=1.0)
    (rows,) = multi_type.solve((made,))
    assert sum(sum(row.values()) for row in rows.values()) == 4


def test_nor_beyond_a_node() -> None:
    made = problem([job("a", 0.01), job("stays", grant=[("n0", 1)], preemptible=False, most=1)], [4, 4], p=1.0)
    (rows,) = multi_type.solve((made,))
    assert sum(sum(row.values()) for row in rows.values()) == 8


def test_what_is_urgent_gets_what_it_needs() -> None:
    made = problem([job("a"), job("b")], [4])
    assert allowed(replace(made, urgent=(1,)), 1) == [0, 1, 2, 3, 4]
    assert allowed(replace(made, urgent=(1,)), 0) == [0, 1, 2, 4]


def test_a_small_job_makes_room_where_that_costs_less_than_scattering() -> None:
    """Two nodes, each with a job of one GPU and a hole of one; who comes for two would be scattered."""
    small = [job(f"s{i}", 0.0, [(f"n{i}", 1)], most=1) for i in range(2)]
    made = problem([*small, job("new", 0.5, most=2)], [2, 2], p=1.0)
    counts = np.array([2 if each.id == "new" else 1 for each in made.jobs])
    before = lay_out(made, counts)
    new = next(row for row, each in enumerate(made.jobs) if each.id == "new")
    assert len(before[new]) == 2 or sum(before[new].values()) == 1
    after = tidied(made, before, counts)
    assert list(after[new].values()) == [2]
    assert sum(sum(row.values()) for row in after.values()) == 4
    assert objective(made, after) > objective(made, before)


def test_nobody_is_moved_for_less_than_it_costs() -> None:
    """The same with jobs that have restarted so often that another move would leave them nothing."""
    small = [job(f"s{i}", 0.0, [(f"n{i}", 1)], most=1, restarts=1000) for i in range(2)]
    made = problem([*small, job("new", 0.0, most=2)], [2, 2], p=1.0)
    counts = np.array([2 if each.id == "new" else 1 for each in made.jobs])
    before = lay_out(made, counts)
    assert tidied(made, before, counts) == before


@settings(max_examples=150, deadline=None)
@given(crowded_clusters(p=1.0))
def test_tidying_up_keeps_the_rules_and_never_loses(case: tuple[Problem, IntArray]) -> None:
    made, counts = case
    before = lay_out(made, counts)
    after = tidied(made, before, counts)
    check_layout(made, after)
    assert all(after[j] == before[j] for j in np.flatnonzero(made.pinned).tolist() if j in before)
    assert objective(made, after) >= objective(made, before) - 1e-9
