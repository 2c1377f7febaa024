"""The mean of V virtual ranks' gradients with the same bits for any number of workers (EasyScale).

Sums follow the tree of V leaves.  Each worker merges the nodes it can finish alone, the rest is an exchange
of slices.  With equal units the sum is divided once at the end, otherwise each unit is first multiplied by
its number of samples; units without samples are no part of the tree.  All of this depends on the counts
alone, never on who owns a unit.

Memory: a worker with n units holds about log2(n) + 1 gradients, one more per block while it exchanges, and
the result.  A unit's gradients stay the tensors that backward made; they are copied once, to be sent.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from elastane.train.reduce.base import BaseReducer, Observe
from elastane.train.reduce.contract import Collective, Shares
from elastane.train.reduce.gradients import GradientLayout, GradientVector
from elastane.train.reduce.tree import Fold, Tree
from elastane.train.reduce.tree_exchange import Exchange, Plan, Slices
from elastane.train.reduce.vector_pool import VectorPool


@dataclass(slots=True)
class _Block:
    """The sum over a node, one tensor per parameter; with a vector if they lie in one."""

    pieces: list[Tensor]
    vector: GradientVector | None = None

    def move_to(self, vector: GradientVector) -> None:
        """From now on the pieces lie in this vector, into which they were copied."""
        self.pieces, self.vector = vector.views, vector


class OrderedReducer(BaseReducer):
    """Fixed order, any owners.

    When a broken step is begun again, merged blocks whose units all still belong to this rank are kept, every
    other block is dropped with all its units: a sum cannot be taken apart.
    """

    def __init__(self, layout: GradientLayout, virtual: int, observe: Observe | None = None) -> None:
        super().__init__(layout, observe)
        self._tree = Tree(virtual)
        self._pool = VectorPool(layout, limit=virtual.bit_length() + 1)
        self._plan = Plan(self._tree, (), {}, 1)
        self._sums: Fold[_Block] = Fold(self._tree, self._merge)
        self._idle: set[int] = set()  # finished units without samples
        self._result = layout.vector()
        self._exchange = Exchange()

    @property
    def finished(self) -> frozenset[int]:
        """Units that are part of a block held here, and those without samples that have had their turn."""
        counts = self._shares.counts
        units = (unit for span, block in self._sums.held.items() if block for unit in range(*span))
        return frozenset(unit for unit in units if counts[unit]) | self._idle

    def begin(self, shares: Shares, rank: int, again: bool) -> None:
        """A step begins; ``again`` keeps what is still this rank's."""
        if len(shares.counts) != self._tree.root[1]:
            raise ValueError(f"a step has {self._tree.root[1]} virtual ranks, not {len(shares.counts)}")
        if again:  # the collective that broke may still be writing into the memory it was given
            self._exchange, self._result = Exchange(), self._layout.vector()
        again = again and shares.counts == self._shares.counts
        if shares != self._shares:
            self._take_shares(shares, rank)
            self._plan = _plan(self._tree, shares)
        self._rank = rank
        self._restart(again)

    def _restart(self, again: bool) -> None:
        held = self._sums.held
        self._sums = Fold(self._tree, self._merge, self._plan.empty)
        self._idle = {unit for unit in self._idle if again and self._owns(unit)}
        for span, block in held.items():
            if block is None:
                continue
            if again and all(self._owns(unit) for unit in range(*span) if self._shares.counts[unit]):
                self._sums.put(span, block)
            else:
                self._drop(block)

    def _owns(self, unit: int) -> bool:
        return self._shares.owner[unit] == self._rank

    def finish(self, unit: int) -> None:
        """Merge the unit's gradients with what is held already."""
        if unit in self.finished:
            raise RuntimeError(f"unit {unit} was finished before")
        count = self._shares.counts[unit]
        if not count:
            self._idle.add(unit)
            self._layout.clear()
            return
        block = self._taken()
        if count > 1 and not self._shares.even:
            torch._foreach_mul_(block.pieces, float(count))
        self._sums.put((unit, unit + 1), block)

    def _taken(self) -> _Block:
        if self.observe is None:
            return _Block(self._layout.take())
        vector = self._pool.take(0)
        self._layout.collect(vector)
        self.observe(vector.gradients)
        return _Block(vector.views, vector)

    def _merge(self, left: _Block, right: _Block) -> _Block:
        if left.vector is not None and right.vector is not None:
            left.vector.gradients.add_(right.vector.gradients)
        else:
            torch._foreach_add_(left.pieces, right.pieces)
        self._drop(right)
        return left

    def _drop(self, block: _Block) -> None:
        if block.vector is not None:
            self._pool.give(block.vector)

    def reduce(self, group: Collective | None, tail: int) -> GradientVector:
        """The mean over all virtual ranks; on failure everything held here stays as it is."""
        blocks = self._own_blocks()
        slices = Slices(self._layout.size, tail, group.world if group is not None else 1)
        self._make_room(slices.room)
        if group is None or group.world == 1:
            torch._foreach_copy_(self._result.views, blocks[0].pieces)
            self._result.gradients.div_(self._plan.divisor)
            self._write_tail(self._result, tail)
        else:
            vectors = [self._flat(block, slices.room) for block in blocks]
            self._write_tail(vectors[0] if vectors else self._result, tail)
            self._exchange.run(group, self._plan, slices, vectors, self._result)
        self._restart(again=False)
        return self._result

    def _own_blocks(self) -> list[_Block]:
        spans = self._plan.spans(self._rank)
        blocks = [block for span in spans if (block := self._sums.held.get(span)) is not None]
        if len(blocks) < len(spans):
            missing = {u for span in spans for u in range(*span) if self._shares.counts[u]} - self.finished
            raise RuntimeError(f"units {sorted(missing)} have no gradient yet")
        return blocks

    def _flat(self, block: _Block, room: int) -> GradientVector:
        """The block in one vector with enough room, from now on."""
        if block.vector is None or len(block.vector.tail) < room:
            vector = self._pool.take(room)
            torch._foreach_copy_(vector.views, block.pieces)
            block.move_to(vector)
            return vector
        return block.vector

    def _make_room(self, room: int) -> None:
        if len(self._result.tail) < room:
            self._result = self._layout.vector(room)


def _plan(tree: Tree, shares: Shares) -> Plan:
    counts = shares.counts
    owners = [owner if count else None for owner, count in zip(shares.owner, counts, strict=True)]
    empty = tuple(unit for unit, count in enumerate(counts) if not count)
    return Plan(tree, empty, tree.blocks(owners), len(counts) if shares.even else shares.total)
