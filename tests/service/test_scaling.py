"""Sizes of pools: never beyond what is allowed, never what somebody works on, and calm under a constant load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.cluster import Node
from elastane.service.scaling import Bounds, Need, PoolNode, PoolState, Size, sizes

A100 = Node("a", 4, "a100")


def pool(*nodes: PoolNode, wanted: int | None = None, price: float = 2.0, **bounds: float) -> PoolState:
    limits = Bounds(**{"most": 4, "idle_s": 60.0, **bounds})  # type: ignore[arg-type]
    return PoolState(A100, price, limits, nodes, len(nodes) if wanted is None else wanted)


def size(state: PoolState, *needs: Need, others: Mapping[str, list[int]] | None = None) -> Size:
    return sizes({"p": state}, needs, others or {})["p"]


def test_it_grows_by_what_waits_and_no_more() -> None:
    assert size(pool(), Need(4)).count == 1
    assert size(pool(), Need(5)).count == 2
    assert size(pool(), Need(2), Need(2)).count == 1
    assert size(pool(), Need(2), others={"a100": [2]}).count == 0
    assert size(pool(), Need(2, types=("v100",))).count == 0


def test_what_is_on_its_way_counts() -> None:
    assert size(pool(wanted=1), Need(4)).count == 1
    assert size(pool(wanted=1), Need(4), Need(4)).count == 2
    assert size(pool(wanted=2)).count == 0, "nobody waits for it any more"


def test_a_job_that_cannot_be_helped_costs_nothing() -> None:
    assert size(pool(), Need(17)).count == 0
    assert size(pool(), Need(1, each=8.0)).count == 0
    assert size(pool(budget_per_hour=3.0), Need(8)).count == 0, "the budget is for one node"


def test_the_cheaper_pool_grows_first_and_the_other_where_it_is_not_enough() -> None:
    dear, cheap = pool(price=8.0), pool(price=1.0, most=1)
    found = sizes({"dear": dear, "cheap": cheap}, [Need(4), Need(4)], {})
    assert (found["dear"].count, found["cheap"].count) == (1, 1)


def test_an_idle_node_is_drained_first_and_given_back_then() -> None:
    young = PoolNode("p-0", 4, 30.0)
    assert size(pool(young)) == Size(1, frozenset({"p-0"}))
    old = replace(young, idle_s=60.0)
    drained = size(pool(old))
    assert drained == Size(1, frozenset({"p-0"}), frozenset({"p-0"}))
    assert size(pool(replace(old, retiring=True))) == Size(0, frozenset())


def test_a_job_that_comes_while_a_node_is_drained_gets_it_back() -> None:
    leaving = PoolNode("p-0", 4, 90.0, retiring=True)
    assert size(pool(leaving), Need(4)) == Size(1, frozenset({"p-0"}))


def test_nobody_gives_back_the_least() -> None:
    idle = [PoolNode(f"p-{i}", 4, 100.0 + i, retiring=True) for i in range(3)]
    assert size(pool(*idle, least=2)).keep == {"p-0", "p-1"}, "who was idle for longest goes first"
    assert size(pool(least=2)).count == 2


def test_a_smaller_budget_drains_nodes_with_work_and_gives_back_empty_ones_only() -> None:
    busy = PoolNode("p-0", 1, None)
    idle = PoolNode("p-1", 4, 0.0)
    found = size(pool(busy, idle, budget_per_hour=2.0))
    assert found == Size(2, frozenset({"p-0", "p-1"}), frozenset({"p-1"}))
    found = size(pool(busy, budget_per_hour=0.0))
    assert found == Size(1, frozenset({"p-0"}), frozenset({"p-0"}))


nodes = st.builds(
    PoolNode,
    name=st.just(""),
    free=st.integers(0, 4),
    idle_s=st.one_of(st.none(), st.floats(0.0, 200.0)),
    retiring=st.booleans(),
)


@st.composite
def states(draw: st.DrawFn) -> PoolState:
    most = draw(st.integers(0, 6))
    least = draw(st.integers(0, most))
    price = draw(st.sampled_from([0.0, 1.0, 2.5]))
    budget = draw(st.one_of(st.none(), st.floats(least * price, 20.0))) if least * price <= 20.0 else None
    there = [replace(node, name=f"n{i}") for i, node in enumerate(draw(st.lists(nodes, max_size=6)))]
    there = [replace(node, free=4) if node.idle_s is not None else node for node in there]
    kind = draw(st.sampled_from(["a100", "v100"]))
    bounds = Bounds(least, most, 60.0, budget)
    return PoolState(Node("x", 4, kind), price, bounds, there, draw(st.integers(0, 8)))


needs = st.lists(
    st.builds(
        Need,
        workers=st.integers(1, 12),
        each=st.sampled_from([1.0, 2.0, 0.5]),
        types=st.sampled_from([(), ("a100",), ("v100",), ("tpu",)]),
    ),
    max_size=6,
)
pools = st.dictionaries(st.sampled_from(["p", "q", "r"]), states(), max_size=3)
others = st.dictionaries(st.sampled_from(["a100", "v100", "cpu"]), st.lists(st.integers(0, 4), max_size=3))


@settings(max_examples=400)
@given(pools, needs, others)
def test_bounds_budget_and_work_are_respected(
    pools: dict[str, PoolState], needs: list[Need], others: dict[str, list[int]]
) -> None:
    for name, found in sizes(pools, needs, others).items():
        state = pools[name]
        names = {node.name for node in state.nodes}
        assert found.keep <= names
        assert len(found.keep) <= found.count
        assert found.retiring <= found.keep
        assert found.count <= max(state.ceiling, len(found.keep)), "it grew beyond limit or budget"
        assert found.count >= min(state.bounds.least, state.ceiling)
        for node in state.nodes:
            if node.name not in found.keep:
                assert node.idle_s is not None, "it has workers"
                assert node.retiring, "it was not drained first"


@settings(max_examples=150, deadline=None)
@given(pools, needs, others)
def test_a_constant_load_comes_to_rest(
    pools: dict[str, PoolState], needs: list[Need], others: dict[str, list[int]]
) -> None:
    """Nodes come as they are asked for, nobody starts, time passes: after a while nothing changes any more."""
    history = []
    for _ in range(8):
        found = sizes(pools, needs, others)
        history.append({name: (each.count, each.keep) for name, each in found.items()})
        pools = {name: followed(pools[name], each) for name, each in found.items()}
    assert history[-1] == history[-2] == history[-3]
    for name in pools:
        counts = [step[name][0] for step in history[3:]]
        assert len(set(counts)) == 1


def followed(state: PoolState, size: Size) -> PoolState:
    """A pool that has become what it shall be, a while later; workers on drained nodes have left."""
    stay = [
        replace(
            node,
            retiring=node.name in size.retiring,
            idle_s=0.0 if node.idle_s is None and node.name in size.retiring else _later(node.idle_s),
            free=4 if node.name in size.retiring else node.free,
        )
        for node in state.nodes
        if node.name in size.keep
    ]
    taken = {node.name for node in stay}
    fresh = (f"m{i}" for i in range(1000) if f"m{i}" not in taken)
    stay += [PoolNode(next(fresh), 4, 0.0) for _ in range(size.count - len(stay))]
    return replace(state, nodes=stay, wanted=size.count)


def _later(idle_s: float | None) -> float | None:
    return None if idle_s is None else idle_s + 100.0


@pytest.mark.parametrize("price", [0.0, 3.0])
def test_a_ceiling_is_what_limit_and_budget_allow(price: float) -> None:
    assert Bounds(0, 5, 60.0, 6.0).ceiling(price) == (5 if not price else 2)
    assert Bounds(0, 5).ceiling(price) == 5
