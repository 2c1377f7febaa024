"""The order of a sum over units: a binary tree that depends on their number alone.

Floating-point sums depend on their order, so the order is fixed: a node over n leaves splits at the largest
power of two below n.  Whoever holds both halves of a node may add them, in any place and at any time, and the
sum over all leaves has the same bits.  Empty leaves add nothing.  The tree knows nothing about tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Span = tuple[int, int]
"""A node: its leaves from the first up to, not including, the second."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Join:
    """Two halves and the node they make."""

    left: Span
    right: Span
    whole: Span


class Tree:
    """All nodes over a number of leaves; ``joins`` tells for every node but the root what it is half of."""

    def __init__(self, leaves: int) -> None:
        self.root: Span = (0, leaves)
        self.joins: dict[Span, Join] = {}
        self._halves: dict[Span, Join] = {}
        self._grow(self.root)

    def _grow(self, whole: Span) -> None:
        start, stop = whole
        if stop - start < 2:
            return
        middle = start + (1 << (stop - start - 1).bit_length() - 1)
        join = Join((start, middle), (middle, stop), whole)
        self._halves[whole] = self.joins[join.left] = self.joins[join.right] = join
        self._grow(join.left)
        self._grow(join.right)

    def blocks(self, owner: Sequence[int | None]) -> dict[int, list[Span]]:
        """The largest nodes each rank can finish alone, from left to right; None is an empty leaf."""
        blocks: dict[int, list[Span]] = {}
        for rank, span in self._blocks(self.root, owner):
            blocks.setdefault(rank, []).append(span)
        return blocks

    def _blocks(self, span: Span, owner: Sequence[int | None]) -> list[tuple[int, Span]]:
        join = self._halves.get(span)
        if join is None:
            rank = owner[span[0]]
            return [] if rank is None else [(rank, span)]
        left, right = self._blocks(join.left, owner), self._blocks(join.right, owner)
        both = left + right
        # A single block fills its half: the rest of that half is empty and adds nothing.
        one = len(both) == 1 or (len(left) == len(right) == 1 and left[0][0] == right[0][0])
        return [(both[0][0], span)] if one else both


class Fold(Generic[Value]):
    """A sum in the making: nodes that are finished so far, merged as soon as both halves are there.

    Leaves put in ascending order leave at most one node of each height waiting, as in a binary counter.
    """

    def __init__(self, tree: Tree, add: Callable[[Value, Value], Value], empty: Sequence[int] = ()) -> None:
        self.held: dict[Span, Value | None] = {}
        self._tree = tree
        self._add = add
        for leaf in empty:
            self.put((leaf, leaf + 1), None)

    def put(self, span: Span, value: Value | None) -> None:
        """A finished node; None if all its leaves are empty."""
        while (join := self._tree.joins.get(span)) is not None:
            left = span == join.left
            sibling = join.right if left else join.left
            if sibling not in self.held:
                break
            other = self.held.pop(sibling)
            value = self._sum(value, other) if left else self._sum(other, value)
            span = join.whole
        self.held[span] = value

    def _sum(self, left: Value | None, right: Value | None) -> Value | None:
        if left is None or right is None:
            return right if left is None else left
        return self._add(left, right)

    @property
    def root(self) -> Value | None:
        """The whole sum; None if it is not finished, or empty."""
        return self.held.get(self._tree.root)
