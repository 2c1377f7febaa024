"""Buckets are a function of the layout alone: every parameter once, the last ones first, none cut in two."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from elastane.train.reduce.buckets import buckets_of
from elastane.train.reduce.gradients import GradientLayout

SIZES = st.lists(st.integers(1, 400), min_size=1, max_size=30)


@given(SIZES, st.integers(4, 2000), st.integers(4, 2000))
def test_every_number_is_in_one_bucket_and_the_last_come_first(sizes: list[int], each: int, first: int) -> None:
    layout = GradientLayout([[nn.Parameter(torch.zeros(size)) for size in sizes]])
    made = buckets_of(layout, whole_bytes=0, bucket_bytes=each, first_bytes=first)
    assert [(bucket.start, bucket.stop) for bucket in made] == sorted(
        ((bucket.start, bucket.stop) for bucket in made), reverse=True
    )
    assert made[0].stop == layout.size
    assert made[-1].start == 0
    assert all(later.stop == earlier.start for earlier, later in itertools.pairwise(made))
    assert sorted(index for bucket in made for index in bucket.places) == list(range(len(sizes)))
    for bucket, least in zip(made[:-1], [first] + [each] * len(made), strict=False):
        smallest = min(layout.places[index].stop - layout.places[index].start for index in bucket.places[:1])
        assert bucket.stop - bucket.start >= least / 4
        assert (bucket.stop - bucket.start - smallest) * 4 < least


def test_small_gradients_stay_in_one_piece_with_the_table() -> None:
    layout = GradientLayout([[nn.Parameter(torch.zeros(100, 100)) for _ in range(20)]])
    assert len(buckets_of(layout)) == 1
    assert len(buckets_of(layout, whole_bytes=1000)) > 1 or layout.size * 4 < 1 << 20
