"""Workers complete the reduction tree together: slices of blocks go to their owners, finished slices to everybody.

The vector is cut into as many slices as there are members.  Every member sends slice r of each of its blocks
to rank r, which sums them in the order of the tree; then the sums are gathered.  That moves as much as a ring
all-reduce does when every member has one block; a member's further blocks cost another round each, which is
cheaper than copying them together.  Blocks are only read, so after a failure they are as good as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elastane.train.reduce.contract import Collective
from elastane.train.reduce.gradients import GradientVector
from elastane.train.reduce.tree import Fold, Span, Tree

ALIGN = 16
"""Slices begin at multiples of this many numbers: whole cache lines."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Gradients and the tail behind them, cut into slices of equal width; the last ones may be short."""

    gradients: int
    tail: int
    world: int

    @property
    def width(self) -> int:
        """Numbers in a slice, padding included."""
        share = -(-(self.gradients + self.tail) // self.world)
        return -(-share // ALIGN) * ALIGN

    @property
    def room(self) -> int:
        """What a vector needs behind its gradients to hold all slices."""
        return self.width * self.world - self.gradients

    def reach(self, number: int, blocks: int) -> tuple[int, int]:
        """What a member with so many blocks sends in a round: its block, and behind the first its tail."""
        start = 0 if number < blocks else self.gradients
        return start, self.gradients + (self.tail if number == 0 else 0)

    def overlap(self, rank: int, start: int, stop: int) -> int:
        """How many of the numbers [start, stop) lie in the slice of a rank."""
        first = rank * self.width
        return max(0, min(stop, first + self.width) - max(start, first))


@dataclass(frozen=True, slots=True)
class Plan:
    """The sum to be made: the tree, its empty leaves, what each rank has of it, what it is divided by."""

    tree: Tree
    empty: tuple[int, ...]
    blocks: Mapping[int, Sequence[Span]]
    divisor: int

    def spans(self, rank: int) -> Sequence[Span]:
        """The blocks of one rank, from left to right."""
        return self.blocks.get(rank, ())

    @property
    def rounds(self) -> int:
        """The largest number of blocks that any rank has."""
        return max(len(spans) for spans in self.blocks.values())


class Exchange:
    """The sum over all members, seen from one; memory is kept from step to step."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0)

    def run(
        self,
        group: Collective,
        plan: Plan,
        slices: Slices,
        blocks: Sequence[GradientVector],
        result: GradientVector,
    ) -> None:
        """Leave everybody's blocks, summed and divided, and the sum of the tails in ``result``.

        The tail of this member lies in its first block; without any block it lies in ``result``.
        """
        own = result.full[group.rank * slices.width :][: slices.width]
        splits = [_incoming(group.rank, number, plan, slices) for number in range(plan.rounds)]
        regions = self._reserve([sum(split) for split in splits], own)
        parts: list[Sequence[Tensor]] = []
        for number, (split, region) in enumerate(zip(splits, regions, strict=True)):
            start, stop = slices.reach(number, len(blocks))
            sent = (blocks[number] if number < len(blocks) else result).full[start:stop]
            leaving = [slices.overlap(rank, start, stop) for rank in range(slices.world)]
            group.all_to_all(region, sent, split, leaving)
            parts.append(torch.split(region, split))
        _finish(parts, plan, slices.overlap(group.rank, 0, slices.gradients), own)
        group.all_gather(result.full[: slices.width * slices.world], own)

    def _reserve(self, sizes: Sequence[int], like: Tensor) -> Sequence[Tensor]:
        total = sum(sizes)
        if len(self._buffer) < total or self._buffer.dtype != like.dtype or self._buffer.device != like.device:
            self._buffer = torch.empty(total, dtype=like.dtype, device=like.device)
        return torch.split(self._buffer[:total], list(sizes))


def _incoming(rank: int, number: int, plan: Plan, slices: Slices) -> list[int]:
    """How much each member sends to this rank in a round."""
    reaches = (slices.reach(number, len(plan.spans(sender))) for sender in range(slices.world))
    return [slices.overlap(rank, start, stop) for start, stop in reaches]


def _finish(parts: Sequence[Sequence[Tensor]], plan: Plan, size: int, own: Tensor) -> None:
    """Sum what has come in for this slice, ``size`` gradients and the rest tail, into ``own``."""
    sums: Fold[Tensor] = Fold(plan.tree, Tensor.add_, plan.empty)
    tail = own[size:].zero_()
    for number, senders in enumerate(parts):
        for sender, part in enumerate(senders):
            spans = plan.spans(sender)
            has_block = number < len(spans)
            if has_block:
                sums.put(spans[number], part[:size])
            if number == 0:
                rest = part[size if has_block else 0 :]
                tail[: len(rest)].add_(rest)
    assert sums.root is not None
    torch.div(sums.root, plan.divisor, out=own[:size])
