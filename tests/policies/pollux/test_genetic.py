"""The published genetic search of Pollux: rules no state may break, the engine, the memory, the answers."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from elastane.cluster import Node
from elastane.models.speed import FloatArray
from elastane.policies.allocation.layout import lay_out
from elastane.policies.allocation.objective import contribution
from elastane.policies.allocation.problem import Problem
from elastane.policies.allocation.solve_and_compare import as_rows, objective
from elastane.policies.allocation.solver import best_counts
from elastane.policies.options import OptionError
from elastane.policies.pollux import Pollux
from elastane.policies.pollux.genetic import StateObjectives, evolve
from elastane.policies.pollux.nsga2 import standing, survivors, tournament
from elastane.policies.pollux.population import first_population, remember
from elastane.policies.pollux.variation import States, Variation
from helpers.pollux_views import job, problem, view


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def present_value(made: Problem) -> float:
    return float(contribution(made.current_speedups(), made.p).sum())


# ---- repair ----------------------------------------------------------------------------------------------


@st.composite
def broken_states(draw: st.DrawFn) -> tuple[Variation, States]:
    """Rules of any kind with states that obey none of them."""
    jobs, nodes, count = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 6))

    def numbers(low: int, high: int, *shape: int) -> States:
        return draw(arrays(np.int16, shape, elements=st.integers(low, high)))

    least = numbers(1, 3, jobs)
    rules = Variation(
        held=numbers(0, 3, jobs, nodes),
        pinned=draw(st.integers(0, jobs)),
        capacity=numbers(0, 8, nodes),
        least=least,
        most=least + numbers(0, 12, jobs),
        widest=numbers(1, 4, jobs),
        kinds=numbers(0, 1, nodes).astype(np.int64),
        usable=draw(arrays(np.bool_, (jobs, nodes))),
    )
    return rules, numbers(0, 9, jobs, nodes, count)


@settings(max_examples=150, deadline=None)
@given(broken_states(), st.integers(0, 1000))
def test_a_repaired_state_breaks_no_rule(case: tuple[Variation, States], seed: int) -> None:
    rules, before = case
    after = rules.repair(before.copy(), rng(seed))
    pinned, free = after[: rules.pinned], after[rules.pinned :]
    assert (pinned == rules.held[: rules.pinned, :, None]).all()
    assert (free >= 0).all()
    assert (free <= before[rules.pinned :]).all(), "repair only takes away"
    assert (free.sum(axis=0) <= rules.capacity[:, None]).all()
    total, spread = free.sum(axis=1), (free > 0).sum(axis=1)
    least, most, widest = (x[rules.pinned :, None] for x in (rules.least, rules.most, rules.widest))
    assert ((total == 0) | ((total >= least) & (total <= most))).all()
    assert (spread <= widest).all()
    assert not free[~rules.usable[rules.pinned :]].any()
    assert all(len(set(rules.kinds[cells > 0])) <= 1 for row in free for cells in row.T)


@settings(max_examples=150, deadline=None)
@given(broken_states(), st.integers(0, 1000))
def test_at_most_one_distributed_job_stands_on_a_node(case: tuple[Variation, States], seed: int) -> None:
    rules, states = case
    after = rules.repair(states, rng(seed))
    here = after > 0
    distributed = here & (here.sum(axis=1) > 1)[:, None, :]
    pinned, free = distributed[: rules.pinned].any(axis=0), distributed[rules.pinned :].sum(axis=0)
    assert (free <= 1).all()
    assert not (pinned & (free > 0)).any(), "pinned jobs are not cleared, so the others have to yield"


@settings(max_examples=100, deadline=None)
@given(broken_states())
def test_a_lawful_state_is_left_alone(case: tuple[Variation, States]) -> None:
    rules, states = case
    once = rules.repair(states, rng())
    assert (rules.repair(once.copy(), rng(7)) == once).all()


def rules_for(capacity: Sequence[int], jobs: int, **limits: Sequence[int]) -> Variation:
    nodes = len(capacity)

    def column(name: str, default: int) -> States:
        return np.array(limits.get(name, [default] * jobs), dtype=np.int16)

    return Variation(
        held=np.zeros((jobs, nodes), dtype=np.int16),
        pinned=0,
        capacity=np.array(capacity, dtype=np.int16),
        least=column("least", 1),
        most=column("most", 99),
        widest=column("widest", 16),
        kinds=np.zeros(nodes, dtype=np.int64),
        usable=np.ones((jobs, nodes), dtype=bool),
    )


def repaired(rules: Variation, state: list[list[int]]) -> list[list[int]]:
    return rules.repair(np.array(state, dtype=np.int16)[:, :, None], rng())[:, :, 0].tolist()


def test_the_later_distributed_job_yields_and_single_node_jobs_may_share() -> None:
    state = [[2, 2, 0], [1, 1, 1], [0, 1, 0]]
    assert repaired(rules_for([4, 4, 4], 3), state) == [[2, 2, 0], [0, 0, 1], [0, 1, 0]]


def test_capacity_goes_to_the_first_jobs() -> None:
    assert repaired(rules_for([4], 3), [[3], [3], [3]]) == [[3], [1], [0]]


def test_a_job_left_with_too_little_gets_nothing() -> None:
    assert repaired(rules_for([4], 2, least=[1, 2]), [[3], [3]]) == [[3], [0]]


def test_who_loses_a_node_to_interference_is_decided_before_limits_are() -> None:
    """The first job would fit on one node within its limit, yet it counts as distributed."""
    after = repaired(rules_for([4, 4, 4], 2, most=[2, 9]), [[2, 2, 0], [1, 1, 1]])
    assert sum(after[0]) == 2
    assert after[1] == [0, 0, 1]


def test_limits_take_from_nodes_at_random() -> None:
    rules = rules_for([4, 4], 1, most=[4])
    states = rules.repair(np.full((1, 2, 400), 4, dtype=np.int16), rng())
    on_first = int((states[0, 0] == 4).sum())
    assert 150 < on_first < 250
    assert (states.sum(axis=1) == 4).all()


# ---- crossover and mutation ------------------------------------------------------------------------------


def test_children_take_first_rows_from_one_parent_and_the_rest_from_the_other() -> None:
    states = np.repeat(np.array([1, 2], dtype=np.int16)[None, None, :], 6, axis=0)
    children = rules_for([4], 6).crossover(states, np.array([0] * 50 + [1] * 50), rng())
    one, two = children[:, 0, :50], children[:, 0, 50:]
    assert (one + two == 3).all()
    assert (np.diff(one, axis=0) >= 0).all(), "one cut: from parent 1 to parent 2, never back"
    assert 1 < len({tuple(child) for child in one.T}) <= 6


@settings(max_examples=100, deadline=None)
@given(broken_states(), st.integers(0, 1000))
def test_mutation_never_exceeds_a_node(case: tuple[Variation, States], seed: int) -> None:
    rules, states = case
    free = slice(rules.pinned, None)
    states = rules.repair(states, rng(seed))
    after = rules.mutate(states.copy(), rng(seed))
    ceiling = np.maximum(np.maximum(states, rules.held[:, :, None]), rules.capacity[None, :, None])
    assert (after[free] <= ceiling[free]).all()
    assert (after >= 0).all()


def test_about_one_new_job_is_offered_each_node_with_room() -> None:
    rules = rules_for([4, 4, 0, 4], 10)
    after = rules.mutate(np.zeros((10, 4, 2000), dtype=np.int16), rng())
    grown = (after > 0).sum(axis=0).mean(axis=1)
    # One growth per node is expected; a fifth of them draws the 0 that the cell already has.
    assert grown == pytest.approx([0.8, 0.8, 0.0, 0.8], abs=0.06)


def test_jobs_on_a_node_with_room_grow_more_often_than_others() -> None:
    states = np.zeros((10, 1, 2000), dtype=np.int16)
    states[:2] = 1
    rules = replace(rules_for([4], 10), held=states[:, :, 0])
    after = rules.mutate(states, rng())
    there, elsewhere = (after[:2] > 1).mean(), (after[2:] > 0).mean()
    assert there == pytest.approx((0.1 + 0.5 - 0.05) * 3 / 4, abs=0.03)
    assert elsewhere == pytest.approx(0.1 * 4 / 5, abs=0.01)


def test_mutation_brings_rows_back_and_takes_cells_away() -> None:
    rules = replace(rules_for([0] * 10, 1), held=np.full((1, 10), 2, dtype=np.int16))
    after = rules.mutate(np.full((1, 10, 4000), 5, dtype=np.int16), rng())[0]
    assert (after == 2).any(axis=0).mean() == pytest.approx(0.1, abs=0.02)
    assert (after == 0).mean() == pytest.approx(0.01, abs=0.003)


# ---- the engine ------------------------------------------------------------------------------------------

POINTS = arrays(np.float64, st.tuples(st.just(2), st.integers(1, 25)), elements=st.integers(0, 6).map(float))


def peeled(points: FloatArray) -> list[int]:
    """Fronts by definition: take away those that nobody left dominates, again and again."""
    left, front, found = set(range(points.shape[1])), 0, [0] * points.shape[1]
    while left:

        def dominated(i: int, among: frozenset[int]) -> bool:
            return any(
                (points[:, j] >= points[:, i]).all() and (points[:, j] > points[:, i]).any() for j in among
            )

        best = {i for i in left if not dominated(i, frozenset(left))}
        for i in best:
            found[i] = front
        left -= best
        front += 1
    return found


@settings(max_examples=200, deadline=None)
@given(POINTS)
def test_fronts_are_those_of_the_definition(points: FloatArray) -> None:
    assert standing(points).front.tolist() == peeled(points)


def test_crowding_is_the_scaled_gap_between_neighbours() -> None:
    points = np.array([[0.0, 1.0, 4.0, 10.0, 4.0], [10.0, 6.0, 5.0, 0.0, 5.0]])
    distance = standing(points).distance.tolist()
    assert distance[0] == distance[3] == np.inf
    assert distance[1] == pytest.approx(0.4 + 0.5)
    assert sorted([distance[2], distance[4]]) == pytest.approx([0.0, 0.9 + 0.6])


@settings(max_examples=100, deadline=None)
@given(POINTS, st.integers(1, 10))
def test_the_best_of_each_objective_and_whole_fronts_survive(points: FloatArray, size: int) -> None:
    stand = standing(points)
    kept = survivors(stand, size)
    assert len(set(kept.tolist())) == min(size, points.shape[1])
    assert points[0, kept].max() == points[0].max() or size < 2
    lost = np.setdiff1d(np.arange(points.shape[1]), kept)
    assert not lost.size or stand.front[kept].max() <= stand.front[lost].min()


def test_tournaments_prefer_lower_fronts() -> None:
    points = np.arange(100.0)[None, :].repeat(2, axis=0)  # the last one dominates all
    winners = tournament(standing(points), 20_000, rng())
    assert winners.mean() == pytest.approx(2 / 3 * 100, abs=1.5)


# ---- objectives ------------------------------------------------------------------------------------------


def some_problem(p: float = -1.0) -> Problem:
    jobs = [
        job("a", 0.02, [("n0", 4)]),
        job("b", 0.1, [("n1", 2)]),
        job("c", 0.3),
        job("d", 0.05, [("n1", 1)], preemptible=False),
        job("e", 0.0, [("n2", 2), ("n3", 2)]),
    ]
    return problem(jobs, [4, 4, 4, 4], p)


@pytest.mark.parametrize("p", [-1.0, 0.0, 1.0])
def test_the_fitness_of_a_state_is_the_objective_of_its_rows(p: float) -> None:
    made = some_problem(p)
    states = Variation.of(made).repair(rng(3).integers(0, 4, (5, 4, 50)).astype(np.int16), rng())
    states[:, :, 0] = made.held
    fitness = StateObjectives.of(made).objectives(states)[0]
    assert fitness == pytest.approx([objective(made, as_rows(states[:, :, i])) for i in range(50)])
    assert fitness[0] == pytest.approx(present_value(made))


def test_utility_is_the_mean_speed_up_per_gpu_of_nodes_in_use() -> None:
    made = problem([job("a", 0.0), job("b", 0.0)], [4, 4])
    state = np.array([[[2], [0]], [[1], [0]]], dtype=np.int16)
    expected = (made.one_node[0, 2] + made.one_node[1, 1]) / 4.0
    assert StateObjectives.of(made).objectives(state)[1] == pytest.approx([expected])


# ---- memory ----------------------------------------------------------------------------------------------


def test_memory_survives_json() -> None:
    made = some_problem()
    _, memory = evolve(made, None, 20, 5, 1)
    again = first_population(made, json.loads(json.dumps(memory)))
    assert again.dtype == np.int16
    assert again.shape == (5, 4, 1 + memory["count"])
    assert (again[:, :, 0] == made.held).all()
    assert remember(made, again[:, :, 1:]) == memory
    assert len(json.dumps(memory)) < 5_000


def test_rows_follow_jobs_and_columns_follow_nodes() -> None:
    before = problem([job("gone"), job("stays"), job("too")], {n: Node(n, 4) for n in ("n0", "n1", "n2")})
    order = [j.id for j in before.jobs]
    states = rng().integers(0, 5, (3, 3, 2)).astype(np.int16)
    memory = remember(before, states)
    after = problem([job("new"), job("too"), job("stays")], {n: Node(n, 4) for n in ("n1", "n9", "n2")})
    found = first_population(after, memory)[:, :, 1:]
    for row, known in enumerate(after.jobs):
        for column, node in enumerate(after.node_ids):
            if known.id in order and node in before.node_ids:
                expected = states[order.index(known.id), before.node_ids.index(node)]
            else:
                expected = np.zeros(2)
            assert (found[row, column] == expected).all()


@pytest.mark.parametrize(
    "damage",
    [
        {"population": "not base64 at all!"},
        {"population": base64.b64encode(b"not zlib").decode()},
        {"population": base64.b64encode(zlib.compress(b"odd")).decode()},
        {"population": 7},
        {"count": 3},
        {"count": -3},
        {"count": "many"},
        {"jobs": ["a"]},
        {"jobs": None},
        {"jobs": ["a", "a", "b", "c", "d"]},
        {"nodes": ["n0", "n0", "n2", "n3"]},
    ],
)
def test_a_damaged_memory_is_worth_as_much_as_none(damage: dict[str, Any]) -> None:
    made = some_problem()
    _, memory = evolve(made, None, 10, 2, 1)
    fresh = evolve(made, None, 10, 2, 5)
    assert evolve(made, {**memory, **damage}, 10, 2, 5) == fresh


@pytest.mark.parametrize("memory", [None, 3, "text", [], {}, {"jobs": []}])
def test_a_memory_of_another_kind_is_ignored(memory: Any) -> None:
    made = some_problem()
    assert evolve(made, memory, 10, 2, 5) == evolve(made, None, 10, 2, 5)


def test_a_remembered_population_that_no_longer_fits_is_repaired() -> None:
    jobs = [job("a"), job("b")]
    wide = problem(jobs, [8, 8])
    memory = remember(wide, np.full((2, 2, 3), 8, dtype=np.int16))
    rows, _ = evolve(problem(jobs, [2, 2]), memory, 10, 1, 1)
    assert sum(sum(row.values()) for row in rows.values()) <= 4


# ---- answers ---------------------------------------------------------------------------------------------


def every_state(made: Problem) -> list[States]:
    """All states of a tiny problem that repair leaves alone."""
    cells = [range(int(made.node_gpus[n]) + 1) for _ in made.jobs for n in range(len(made.node_ids))]
    shape = made.held.shape
    states = np.array(list(product(*cells)), dtype=np.int16).T.reshape(*shape, -1)
    lawful = (Variation.of(made).repair(states.copy(), rng()) == states).all(axis=(0, 1))
    return [states[:, :, i] for i in np.flatnonzero(lawful)]


@pytest.mark.parametrize("p", [-1.0, 1.0])
def test_a_tiny_problem_is_solved_exactly(p: float) -> None:
    made = problem([job("a", 0.02, [("n0", 1)]), job("b", 0.5), job("c", 0.1, [("n1", 2)])], [2, 2], p)
    best = max(objective(made, as_rows(state)) for state in every_state(made))
    rows, _ = evolve(made, None, 100, 100, 1)
    assert objective(made, rows) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(4))
def test_it_comes_close_to_the_solver(seed: int) -> None:
    draw = rng(seed)
    jobs = [job(f"j{i}", float(draw.uniform(0.0, 0.4)), [(f"n{i}", 1)] if i < 4 else []) for i in range(8)]
    made = problem(jobs, [4, 4, 4, 4])
    solved = objective(made, lay_out(made, best_counts(made.count_values(), 16)))
    rows, memory = evolve(made, None, 100, 100, seed)
    rows, _ = evolve(made, memory, 100, 100, seed + 1)
    assert objective(made, rows) >= solved - 0.01 * abs(solved)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_the_answer_is_never_worse_than_the_present_state(seed: int, sizes: list[int]) -> None:
    jobs = [job(f"j{i}", 0.1 * i, [(f"n{i}", k)] if k else []) for i, k in enumerate(sizes)]
    made = problem(jobs, [4] * len(sizes))
    rows, _ = evolve(made, None, 6, 2, seed)
    assert objective(made, rows) >= present_value(made) - 1e-9


def test_a_second_round_goes_on_where_the_first_stopped() -> None:
    made = some_problem()
    rows, memory = evolve(made, None, 30, 30, 1)
    again, _ = evolve(made, memory, 30, 1, 2)
    assert objective(made, again) >= objective(made, rows) - 1e-12


def test_equal_seeds_give_equal_answers_and_others_may_differ() -> None:
    made = some_problem()
    assert evolve(made, None, 20, 5, 3) == evolve(made, None, 20, 5, 3)
    assert evolve(made, None, 20, 5, 3)[1] != evolve(made, None, 20, 5, 4)[1]


def test_survivors_differ_from_one_another() -> None:
    made = some_problem()
    _, memory = evolve(made, None, 40, 10, 3)
    states = first_population(made, memory)[:, :, 1:]
    assert len({states[:, :, i].tobytes() for i in range(states.shape[2])}) == memory["count"] <= 40


# ---- the policy ------------------------------------------------------------------------------------------

SMALL = Pollux(search="genetic", population=20, generations=10)


def test_the_policy_is_pure_and_keeps_its_population() -> None:
    jobs = [job(f"j{i}", 0.1) for i in range(5)]
    snapshot = view(jobs, [4, 4])
    plan = SMALL.decide(snapshot)
    assert plan == SMALL.decide(snapshot)
    assert json.loads(json.dumps(plan.memory)) == plan.memory
    assert set(plan.memory["jobs"]) == {j.id for j in jobs}
    later = SMALL.decide(view(jobs[1:], [4, 4], seed=2, memory=plan.memory))
    assert set(later.memory["jobs"]) == {j.id for j in jobs[1:]}


def test_pinned_jobs_keep_their_grant() -> None:
    fixed = job("fixed", 0.9, [("n0", 3), ("n1", 3)], preemptible=False)
    plan = SMALL.decide(view([fixed, *(job(f"j{i}", 0.0) for i in range(4))], [4, 4]))
    assert plan.intent.grants["fixed"] is fixed.grant


def test_types_are_respected_and_never_mixed() -> None:
    nodes = {
        "a0": Node("a0", 4, "a100"),
        "a1": Node("a1", 4, "a100"),
        "t0": Node("t0", 4, "t4"),
        "t1": Node("t1", 4, "t4"),
    }
    jobs = [job("any", 0.0), job("t4 only", 0.0, types=("t4",)), job("a100 only", 0.0, types=("a100",))]
    plan = SMALL.decide(view(jobs, nodes))
    for name, grant in plan.intent.grants.items():
        kinds = {nodes[node].gpu_type for node in grant.nodes}
        assert len(kinds) == 1
        assert name == "any" or kinds == {name.split()[0]}


def test_nothing_to_divide() -> None:
    assert SMALL.decide(view([], [4])).intent.grants == {}
    assert SMALL.decide(view([job("a")], {})).intent.grants == {}
    assert SMALL.decide(view([job("a")], [0])).intent.grants == {}


@pytest.mark.parametrize("options", [{"population": 1}, {"generations": 0}, {"search": "random"}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="pollux"):
        Pollux(**{"search": "genetic", **options})
