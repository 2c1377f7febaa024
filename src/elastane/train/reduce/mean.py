"""The sample-weighted mean of all units' gradients by one all-reduce: fast, equal up to rounding.

Passes over memory per step, for one unit on each of several workers: the copy into the vector, the scaling,
the all-reduce.  Each further unit of a worker is one addition; one worker with one unit only copies.  The
result depends on the number of workers in its last bits: see ``ordered`` where that matters.
"""

from __future__ import annotations

import torch

from elastane.train.reduce.base import BaseReducer, Observe
from elastane.train.reduce.contract import Collective, Shares
from elastane.train.reduce.gradients import GradientLayout, GradientVector

_SPARE = 1024
"""Numbers of room to spare behind the gradients, so that another worker does not mean another vector."""


class MeanReducer(BaseReducer):
    """Σ n_u·g_u / Σ n_u over units with n_u samples; a broken step is begun from nothing."""

    def __init__(self, layout: GradientLayout, observe: Observe | None = None) -> None:
        super().__init__(layout, observe)
        self._vector = layout.vector()
        self._scratch: GradientVector | None = None
        self._weight = 0  # the vector holds the sum of n_u·g_u / weight; 0 while it holds nothing
        self._finished: set[int] = set()

    @property
    def finished(self) -> frozenset[int]:
        """Units done in this attempt."""
        return frozenset(self._finished)

    def begin(self, shares: Shares, rank: int, again: bool) -> None:
        """A step begins; other members mean other shares, so nothing is kept when it is begun again."""
        self._take_shares(shares, rank)
        if again:  # the collective that broke may still be writing into the old one
            self._vector = self._layout.vector()
        self._weight = 0
        self._finished = set()

    def finish(self, unit: int) -> None:
        """Add the unit's gradient to this worker's sum."""
        self._finished.add(unit)
        count = self._shares.counts[unit]
        if not count:
            self._layout.clear()
        elif not self._weight:
            self._layout.collect(self._vector)
            self._show(self._vector)
            self._weight = count
        else:
            self._add(count / self._weight)

    def _add(self, factor: float) -> None:
        if self.observe is None:
            torch._foreach_add_(self._vector.views, self._layout.take(), alpha=factor)
            return
        if self._scratch is None:
            self._scratch = self._layout.vector()
        self._layout.collect(self._scratch)
        self._show(self._scratch)
        self._vector.gradients.add_(self._scratch.gradients, alpha=factor)

    def _show(self, vector: GradientVector) -> None:
        if self.observe is not None:
            self.observe(vector.gradients)

    def reduce(self, group: Collective | None, tail: int) -> GradientVector:
        """The mean over all members' units."""
        self._make_room(tail)
        vector, share = self._vector, self._weight / self._shares.total
        if not share:
            vector.gradients.zero_()
        elif share != 1.0:
            vector.gradients.mul_(share)
        self._write_tail(vector, tail)
        if group is not None and group.world > 1:
            group.all_reduce(vector.full[: self._layout.size + tail])
        return vector

    def _make_room(self, tail: int) -> None:
        if len(self._vector.tail) < tail:
            larger = self._layout.vector(2 * tail + _SPARE)
            larger.gradients.copy_(self._vector.gradients)
            self._vector = larger
