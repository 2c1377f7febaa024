"""Clusters to lay jobs out on, and what holds for every layout."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from elastane.models.speed import IntArray
from elastane.policies.allocation.problem import Problem
from elastane.policies.allocation.solve_and_compare import Rows
from elastane.policies.allocation.solver import best_counts
from helpers.pollux_views import job, problem


@st.composite
def crowded_clusters(draw: st.DrawFn, p: float = -1.0) -> tuple[Problem, IntArray]:
    """A feasible present state, and counts that fit the cluster in sum."""
    nodes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=6))
    left, jobs = dict(enumerate(nodes)), []
    for i in range(draw(st.integers(1, 8))):
        node = draw(st.integers(0, len(nodes) - 1))
        size = draw(st.integers(0, left[node]))
        left[node] -= size
        jobs.append(
            job(
                f"j{i}",
                draw(st.floats(0.0, 0.5)),
                [(f"n{node}", size)] if size else [],
                preemptible=draw(st.integers(0, 3)) > 0,
                restarts=draw(st.integers(0, 100)),
            )
        )
    made = problem(jobs, nodes, p)
    return made, best_counts(made.count_values(), sum(nodes))


def check_layout(made: Problem, rows: Rows) -> None:
    """Nobody has too few or too many, no node gives more than it has, no two distributed jobs meet."""
    used = np.zeros(len(made.node_ids), dtype=np.int64)
    spread = np.zeros_like(used)
    for j, row in rows.items():
        assert made.least[j] <= sum(row.values()) <= made.most[j]
        for node, count in row.items():
            used[node] += count
            spread[node] += len(row) > 1
    assert (used <= made.node_gpus).all()
    assert (spread <= 1).all()
