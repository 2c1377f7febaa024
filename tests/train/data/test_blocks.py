"""Cutting a block into units: nothing lost, nothing added, as even as can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.data.blocks import split, unit_spans


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_a_split_is_complete_even_and_larger_first(count: int, parts: int) -> None:
    counts = split(count, parts)
    assert len(counts) == parts
    assert sum(counts) == count
    assert max(counts) - min(counts) <= 1
    assert list(counts) == sorted(counts, reverse=True)


@given(st.integers(0, 1000), st.lists(st.integers(0, 9), max_size=20))
def test_units_follow_each_other_without_gap_or_overlap(start: int, counts: list[int]) -> None:
    spans = unit_spans(start, counts)
    covered = [position for first, count in spans for position in range(first, first + count)]
    assert covered == list(range(start, start + sum(counts)))
    assert [count for _, count in spans] == counts


@pytest.mark.parametrize(("count", "parts"), [(-1, 2), (3, 0)])
def test_an_impossible_split_is_refused(count: int, parts: int) -> None:
    with pytest.raises(ValueError, match="cannot split"):
        split(count, parts)
