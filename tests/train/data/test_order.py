"""The order of a pass: a permutation by (seed, pass) alone, whatever part is asked for and whenever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.data.order import Order

seeds = st.integers(0, 2**63)
limits = st.sampled_from([0, 10_000_000])  # without and with a table


@given(st.integers(1, 2000), seeds, st.integers(0, 50), limits)
def test_every_pass_is_a_permutation(length: int, seed: int, pass_index: int, limit: int) -> None:
    found = Order(length, seed, shuffle=True, table_limit=limit).indices(pass_index, 0, length)
    assert np.array_equal(np.sort(found), np.arange(length))


@given(st.integers(1, 500), seeds, limits, st.data())
def test_history_does_not_matter(length: int, seed: int, limit: int, data: st.DataObject) -> None:
    used = Order(length, seed, shuffle=True, table_limit=limit)
    for _ in range(data.draw(st.integers(0, 4))):
        used.indices(data.draw(st.integers(0, 3)), 0, length)
    start = data.draw(st.integers(0, length - 1))
    count = data.draw(st.integers(1, length - start))
    fresh = Order(length, seed, shuffle=True, table_limit=limit)
    assert np.array_equal(used.indices(2, start, count), fresh.indices(2, 0, length)[start : start + count])


def test_parts_of_a_long_pass_fit_together() -> None:
    length = 30_000  # several windows
    order = Order(length, 1, shuffle=True, table_limit=0)
    whole = order.indices(0, 0, length)
    for start, count in [(0, 10), (8000, 400), (8190, 4), (20, 9), (29_000, 1000), (100, 20_000), (29_999, 1)]:
        assert np.array_equal(order.indices(0, start, count), whole[start : start + count])


def test_order_never_changes_between_versions() -> None:
    # Jobs that are halfway through a pass rely on these; do not adapt them to the code.
    assert Order(10, seed=1, shuffle=True).indices(0, 0, 10).tolist() == [4, 1, 2, 3, 5, 8, 7, 0, 9, 6]
    assert Order(10, seed=1, shuffle=True, table_limit=0).indices(0, 0, 10).tolist() == [
        0,
        9,
        2,
        5,
        6,
        3,
        4,
        7,
        1,
        8,
    ]


@pytest.mark.parametrize("limit", [0, 10_000_000])
def test_passes_and_seeds_are_shuffled_differently(limit: int) -> None:
    a = Order(10_000, 1, shuffle=True, table_limit=limit)
    b = Order(10_000, 2, shuffle=True, table_limit=limit)
    first = a.indices(0, 0, 10_000)
    for other in (a.indices(1, 0, 10_000), b.indices(0, 0, 10_000), np.arange(10_000)):
        assert np.mean(first == other) < 0.01


def test_every_sample_is_equally_likely_at_every_position() -> None:
    seen = np.zeros((5, 5))
    for seed in range(4000):
        seen[np.arange(5), Order(5, seed, shuffle=True).indices(0, 0, 5)] += 1
    assert np.all(np.abs(seen - 800.0) < 5.0 * np.sqrt(4000 * 0.2 * 0.8))


def test_without_shuffling_the_order_is_that_of_the_data() -> None:
    assert Order(10).indices(3, 4, 3).tolist() == [4, 5, 6]


def test_what_is_handed_out_may_be_changed() -> None:
    order = Order(10, shuffle=True)
    before = order.indices(0, 0, 10)
    order.indices(0, 0, 10).fill(0)
    assert np.array_equal(order.indices(0, 0, 10), before)


@pytest.mark.parametrize(("start", "count"), [(-1, 2), (0, 0), (0, 11), (10, 1)])
def test_positions_outside_the_pass_are_never_cut_silently(start: int, count: int) -> None:
    with pytest.raises(ValueError, match="do not lie in a pass of 10"):
        Order(10, shuffle=True).indices(0, start, count)
