"""Slices cover the vector once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elastane.train.reduce.tree_exchange import ALIGN, Slices

SLICES = st.builds(Slices, st.integers(1, 500), st.integers(0, 90), st.integers(1, 12))


@given(SLICES)
def test_slices_are_aligned_and_hold_everything(slices: Slices) -> None:
    assert slices.width % ALIGN == 0
    assert slices.width * slices.world >= slices.gradients + slices.tail
    assert slices.room >= slices.tail


@given(SLICES, st.integers(0, 3), st.integers(0, 3))
def test_every_number_that_is_sent_lies_in_one_slice(slices: Slices, number: int, blocks: int) -> None:
    start, stop = slices.reach(number, blocks)
    parts = [slices.overlap(rank, start, stop) for rank in range(slices.world)]
    assert sum(parts) == stop - start
    assert all(0 <= part <= slices.width for part in parts)


@given(SLICES)
def test_gradients_travel_with_each_block_and_the_tail_once(slices: Slices) -> None:
    size, whole = slices.gradients, slices.gradients + slices.tail
    assert [slices.reach(number, 2) for number in range(3)] == [(0, whole), (0, size), (size, size)]
    assert slices.reach(0, 0) == (size, whole)
