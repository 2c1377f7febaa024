"""One order of summation for a number of leaves, whoever adds."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from elastane.train.reduce.tree import Fold, Tree

LEAVES = st.integers(1, 40)


def spelled(start: int, stop: int, empty: frozenset[int] = frozenset()) -> str:
    """The sum over leaves as it is defined, written out."""
    if stop - start == 1:
        return "" if start in empty else str(start)
    half = 1
    while half * 2 < stop - start:
        half *= 2
    parts = [spelled(start, start + half, empty), spelled(start + half, stop, empty)]
    parts = [part for part in parts if part]
    return f"({'+'.join(parts)})" if len(parts) == 2 else "".join(parts)


def add(left: str, right: str) -> str:
    return f"({left}+{right})"


def test_odd_numbers_split_at_the_largest_power_of_two() -> None:
    assert spelled(0, 7) == "(((0+1)+(2+3))+((4+5)+6))"
    tree = Tree(7)
    assert tree.joins[(4, 7)].left == (0, 4)
    assert tree.joins[(6, 7)].left == (4, 6)
    assert Tree(8).joins[(0, 4)].right == (4, 8)


@given(LEAVES, st.data())
def test_the_sum_is_the_same_in_whatever_order_leaves_come(leaves: int, data: st.DataObject) -> None:
    empty = data.draw(st.frozensets(st.integers(0, leaves - 1), max_size=leaves - 1))
    full = data.draw(st.permutations([leaf for leaf in range(leaves) if leaf not in empty]))
    fold: Fold[str] = Fold(Tree(leaves), add, sorted(empty))
    for leaf in full:
        fold.put((leaf, leaf + 1), str(leaf))
    assert fold.root == spelled(0, leaves, empty)


@given(LEAVES)
def test_ascending_leaves_keep_few_nodes_alive(leaves: int) -> None:
    fold: Fold[str] = Fold(Tree(leaves), add)
    for leaf in range(leaves):
        fold.put((leaf, leaf + 1), str(leaf))
        assert len(fold.held) <= (leaf + 1).bit_length()
    assert len(fold.held) == 1


@given(LEAVES, st.integers(1, 6), st.integers(0, 2**32))
def test_blocks_are_what_each_rank_holds_in_the_end(leaves: int, ranks: int, seed: int) -> None:
    source = random.Random(seed)
    owner = [source.choice([None, *range(ranks)]) for _ in range(leaves)]
    tree = Tree(leaves)
    blocks = tree.blocks(owner)
    empty = [leaf for leaf, rank in enumerate(owner) if rank is None]
    for rank in range(ranks):
        fold: Fold[str] = Fold(tree, add, empty)
        for leaf in (leaf for leaf, mine in enumerate(owner) if mine == rank):
            fold.put((leaf, leaf + 1), str(leaf))
        assert blocks.get(rank, []) == sorted(span for span, value in fold.held.items() if value is not None)


@given(LEAVES, st.integers(1, 6), st.integers(0, 2**32))
def test_blocks_of_all_ranks_add_up_to_the_same_sum(leaves: int, ranks: int, seed: int) -> None:
    source = random.Random(seed)
    owner = [source.choice([None, *range(ranks)]) for _ in range(leaves)]
    empty = frozenset(leaf for leaf, rank in enumerate(owner) if rank is None)
    tree = Tree(leaves)
    fold: Fold[str] = Fold(tree, add, sorted(empty))
    spans = [span for spans in tree.blocks(owner).values() for span in spans]
    for span in source.sample(spans, len(spans)):
        fold.put(span, spelled(*span, empty))
    assert (fold.root or "") == spelled(0, leaves, empty)
