"""The permutation without a table: a permutation, one per key, and well mixed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.data.feistel import feistel

keys = st.integers(0, 2**64 - 1)


@given(st.integers(1, 3000), keys)
def test_it_is_a_permutation_of_every_length(length: int, key: int) -> None:
    found = feistel(np.arange(length), length, key)
    assert np.array_equal(np.sort(found), np.arange(length))


@given(st.integers(1, 2**62), keys, st.data())
def test_positions_of_huge_lengths_stay_in_range_and_distinct(
    length: int, key: int, data: st.DataObject
) -> None:
    positions = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=50, unique=True))
    found = feistel(np.array(positions, dtype=np.int64), length, key)
    assert found.min() >= 0
    assert found.max() < length
    assert len(set(found.tolist())) == len(positions)


@given(keys)
def test_any_part_can_be_asked_for_alone(key: int) -> None:
    whole = feistel(np.arange(1000), 1000, key)
    assert np.array_equal(feistel(np.arange(400, 450), 1000, key), whole[400:450])


def test_another_key_gives_another_permutation() -> None:
    a, b = (feistel(np.arange(100_000), 100_000, key) for key in (1, 2))
    assert np.mean(a == b) < 1e-3


def test_neighbours_are_spread_evenly() -> None:
    length, bins = 1_000_003, 100
    for key in range(5):
        found = feistel(np.arange(50_000), length, key)
        counts = np.bincount(found * bins // length, minlength=bins)
        chi_square = float(((counts - 500.0) ** 2 / 500.0).sum())
        assert 50.0 < chi_square < 165.0  # 99 degrees of freedom: far tails on either side
        steps = np.diff(found)
        assert abs(float(np.corrcoef(found[:-1], found[1:])[0, 1])) < 0.03
        assert abs(float(np.mean(steps > 0)) - 0.5) < 0.01
