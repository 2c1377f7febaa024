"""Keys: the same for ever, different for different inputs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.data.keys import Purpose, key_of, scramble

numbers = st.integers(0, 2**64 - 1)


def test_keys_never_change_between_versions() -> None:
    # A checkpoint of a running job relies on these; do not adapt them to the code.
    assert key_of(Purpose.ORDER, 0, 0) == 2963419794075194370
    assert scramble(np.arange(3, dtype=np.uint64), 7).tolist() == [
        1346066267577507604,
        7191089600892374487,
        309689372594955804,
    ]


def test_first_number_of_splitmix64_with_seed_0_as_published() -> None:
    assert scramble(np.array([1], dtype=np.uint64), 0).tolist() == [0xE220A8397B1DCDAF]


@given(numbers, numbers, numbers)
def test_order_of_the_parts_and_the_purpose_matter(a: int, b: int, c: int) -> None:
    keys = {key_of(Purpose.SAMPLE, a, b), key_of(Purpose.ORDER, a, b), key_of(Purpose.SAMPLE, a, b, c)}
    assert len(keys) == 3
    assert (key_of(Purpose.SAMPLE, a, b) == key_of(Purpose.SAMPLE, b, a)) == (a == b)


def test_neighbouring_inputs_give_unrelated_keys() -> None:
    keys = [key_of(Purpose.SAMPLE, seed, index) for seed in range(40) for index in range(40)]
    assert len(set(keys)) == 1600
    ones = sum(bin(a ^ b).count("1") for a, b in pairwise(keys)) / 1599
    assert 31.0 < ones < 33.0  # half of 64 bits differ; the standard error is 0.1


@given(numbers, st.sets(numbers, min_size=1, max_size=10))
def test_scrambling_keeps_distinct_numbers_distinct(key: int, values: set[int]) -> None:
    found = scramble(np.array(sorted(values), dtype=np.uint64), key)
    assert len(set(found.tolist())) == len(values)
