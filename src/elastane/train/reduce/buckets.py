"""Cuts a gradient vector into ``Bucket``s, which are reduced one after the other, always in the same order.

Which parameters a bucket has, and which bucket comes first, follows from the layout alone: the last parameters come
first, since their gradients are usually there first.  Arrival never decides, so all workers reduce the same slices
in the same order, whether a worker sends a bucket while its backward pass runs or all of them behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastane.train.reduce.gradients import GradientLayout

WHOLE_BYTES = 1 << 20
"""Gradients up to this size are reduced in one piece, together with the table behind them."""
FIRST_BYTES = 1 << 20
"""The first bucket is small, so that the first sum begins early."""
BUCKET_BYTES = 8 << 20
"""A bucket is closed when it has this size; one large parameter makes a larger one."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One slice of the vector, and the places of the parameters in it."""

    start: int
    stop: int
    places: tuple[int, ...]


def buckets_of(
    layout: GradientLayout,
    whole_bytes: int = WHOLE_BYTES,
    bucket_bytes: int = BUCKET_BYTES,
    first_bytes: int = FIRST_BYTES,
) -> tuple[Bucket, ...]:
    """The buckets of a layout, in the order in which they are reduced."""
    width = layout.dtype.itemsize
    spans = [(place.start, place.stop) for place in layout.places]
    if layout.size * width <= whole_bytes:
        return (Bucket(0, layout.size, tuple(range(len(spans)))),)
    made: list[Bucket] = []
    open_: list[int] = []
    for index in reversed(range(len(spans))):
        open_.append(index)
        size = (spans[open_[0]][1] - spans[index][0]) * width
        if size >= (bucket_bytes if made else first_bytes):
            made.append(_closed(open_, spans))
            open_ = []
    if open_:
        made.append(_closed(open_, spans))
    return tuple(made)


def _closed(places: list[int], spans: Sequence[tuple[int, int]]) -> Bucket:
    return Bucket(spans[places[-1]][0], spans[places[0]][1], tuple(sorted(places)))
