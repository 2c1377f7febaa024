"""Which pilots there are: exactly those that are wished for, whatever Ray has and whatever there was before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elastane.engines.ray.fleet import (
    NODE_LABEL,
    PREFIX,
    Moves,
    Seen,
    There,
    moves,
    pool_of,
    unlike_others,
)
from elastane.engines.ray.messages import PoolWish, Wish

HEAD = Seen("h", "head", "10.0.0.1", cpus=0.0)
ONE, TWO = Seen("1", "one.example.org", "10.0.0.2", 4.0), Seen("2", "two", "10.0.0.3", 4.0, 2.0)
SPOT = PoolWish(2, gpus=2.0, cpus=2.0)


def wish(every: bool = True, keep: tuple[str, ...] = (), **pools: PoolWish) -> Wish:
    return Wish("elastane://…", pools, keep, every)


def test_every_node_that_can_run_something_gets_a_pilot_and_a_head_without_cpus_none() -> None:
    found = moves([HEAD, ONE, TWO], [], wish())
    assert [start.name for start in found.start] == [PREFIX + "1", PREFIX + "2"]
    assert [start.node.name for start in found.start if start.node] == ["one", "two"]


def test_only_labelled_nodes_get_one_where_pools_are_used() -> None:
    labelled = Seen("3", "three", "10.0.0.4", 4.0, labels={NODE_LABEL: "big"})
    found = moves([ONE, labelled], [], wish(every=False))
    assert [start.node.name for start in found.start if start.node] == ["big"]


def test_a_pilot_whose_node_has_left_is_ended() -> None:
    assert moves([ONE], [There(PREFIX + "1", "1"), There(PREFIX + "9", "9")], wish()).end == (PREFIX + "9",)


def test_when_all_are_given_back_none_is_left() -> None:
    pilots = [There(PREFIX + "1", "1"), There(f"{PREFIX}spot/0", "2")]
    found = moves([ONE, TWO], pilots, Wish("", every_node=True, none=True))
    assert found == Moves((), (PREFIX + "1", f"{PREFIX}spot/0"))


def test_a_pool_grows_by_pilots_without_a_node() -> None:
    found = moves([], [There(f"{PREFIX}spot/0")], wish(spot=SPOT))
    assert [(start.name, start.wish, start.pool) for start in found.start] == [
        (f"{PREFIX}spot/1", SPOT, "spot")
    ]


def test_a_pool_shrinks_by_pilots_that_wait_and_keeps_what_it_is_told_to_keep() -> None:
    pilots = [There(f"{PREFIX}spot/0", "1"), There(f"{PREFIX}spot/1", "2"), There(f"{PREFIX}spot/2")]
    one = PoolWish(1)
    assert moves([ONE, TWO], pilots, wish(every=False, keep=("one",), spot=one)).end == (
        f"{PREFIX}spot/1",
        f"{PREFIX}spot/2",
    )
    none = wish(every=False, keep=("one", "two"), spot=PoolWish(0))
    assert moves([ONE, TWO], pilots, none).end == (f"{PREFIX}spot/2",)


def test_nodes_of_one_host_name_are_told_apart_by_the_ids_that_ray_gives_them() -> None:
    twins = [Seen("f" * 50 + "00001", "box.example.org", "::1"), Seen("f" * 50 + "00002", "box", "::1")]
    assert [unlike_others(node, [*twins, ONE]) for node in twins] == ["box-f00001", "box-f00002"]
    assert unlike_others(twins[0], [twins[0], ONE]) == "box"
    labelled = Seen("3", "box", "::1", labels={NODE_LABEL: "big"})
    assert unlike_others(labelled, [labelled, *twins]) == "big"


def test_a_pool_that_shrinks_keeps_nodes_by_the_names_under_which_they_have_joined() -> None:
    twins = [Seen("1", "box", "::1", 4.0), Seen("2", "box", "::1", 4.0)]
    pilots = [There(f"{PREFIX}spot/0", "1", "box"), There(f"{PREFIX}spot/1", "2", "box-2")]
    kept = wish(every=False, keep=("box",), spot=PoolWish(1))
    assert moves(twins, pilots, kept).end == (f"{PREFIX}spot/1",)
    kept = wish(every=False, keep=("box-2",), spot=PoolWish(1))
    assert moves(twins, pilots, kept).end == (f"{PREFIX}spot/0",)


def test_a_node_that_a_pool_holds_gets_no_second_pilot() -> None:
    found = moves([TWO], [There(f"{PREFIX}spot/0", "2")], wish(spot=PoolWish(1)))
    assert found == Moves((), ())


NODES = st.lists(
    st.builds(Seen, st.sampled_from("abcdef"), st.sampled_from(["x", "y", "z"]), st.just(""), st.floats(0, 8)),
    unique_by=lambda node: node.id,
)
COUNTS = st.dictionaries(st.sampled_from(["p", "q/r"]), st.builds(PoolWish, st.integers(0, 4)))
WISHES = st.builds(Wish, st.just(""), COUNTS, st.just(()), st.booleans())


@given(NODES, st.lists(st.tuples(WISHES, st.lists(st.sampled_from("abcdef"), max_size=4)), max_size=6))
def test_once_the_moves_are_made_nothing_is_left_to_do(
    nodes: list[Seen], turns: list[tuple[Wish, list[str]]]
) -> None:
    pilots: dict[str, There] = {}
    for each, landed in turns:
        found = moves(nodes, pilots.values(), each)
        for start in found.start:
            pilots[start.name] = There(start.name, start.node.id if start.node else "")
        for name in found.end:
            del pilots[name]
        assert moves(nodes, pilots.values(), each) == Moves((), ())
        for pool, wanted in each.pools.items():
            assert sum(pool_of(name) == pool for name in pilots) == wanted.count
        for name, node in zip([p for p in pilots if pool_of(p)], landed, strict=False):
            pilots[name] = There(name, node)  # Ray found nodes for some
