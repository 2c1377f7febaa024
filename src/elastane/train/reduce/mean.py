"""The sample-weighted mean of all units' gradients by sums over the workers: fast, equal up to rounding.

Passes over memory per step, for one unit on each of several workers: the scaled copy into the vector, the sum.
Each further unit of a worker is one addition; one worker with one unit only copies.  The result depends on the
number of workers in its last bits: see ``ordered`` where that matters.

A large vector is reduced bucket by bucket (``buckets``), in one order on all workers and in every step; the tail
comes last.  The buckets of a worker's last unit may be sent while its backward pass runs (``go_ahead``): that changes
when they are sent, and nothing else.  Until the result is believed, the gradients that it is made of are kept, so
that a step in which somebody sent what was not final is put right by reducing once more (``repeat``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elastane.train.reduce.backward_watch import BackwardWatch
from elastane.train.reduce.base import BaseReducer, Observe
from elastane.train.reduce.begun_sums import BegunSums
from elastane.train.reduce.buckets import Bucket, buckets_of
from elastane.train.reduce.contract import Ahead, Collective, Shares
from elastane.train.reduce.gradients import GradientLayout, GradientVector
from elastane.train.reduce.narrow_sum import narrow_sum

_SPARE = 1024
"""Numbers of room to spare behind the gradients, so that another worker does not mean another vector."""


@dataclass(frozen=True, slots=True)
class _LastUnit:
    """The gradients of a worker's last unit, as its backward made them, and its samples."""

    pieces: list[Tensor]
    count: int


class MeanReducer(BaseReducer):
    """Σ n_u·g_u / Σ n_u over units with n_u samples; a broken step is begun from nothing."""

    def __init__(
        self,
        layout: GradientLayout,
        observe: Observe | None = None,
        *,
        buckets: Sequence[Bucket] | None = None,
        narrow: bool = False,
    ) -> None:
        """``narrow``: gradients travel as bfloat16."""
        super().__init__(layout, observe)
        self._buckets = tuple(buckets_of(layout) if buckets is None else buckets)
        self._narrow = narrow
        self._vector = layout.vector()
        self._scratch: GradientVector | None = None
        self._other: GradientVector | None = None  # the result, where the vector holds earlier units
        self._result = self._vector
        self._weight = 0  # the vector holds the sum of n_u·g_u / weight; 0 while it holds nothing
        self._finished: set[int] = set()
        self._watch: BackwardWatch | None = None
        self._last: _LastUnit | None = None
        self._ahead: Ahead | None = None
        self._ahead_unit = -1
        self._idle = self._interrupted = False
        self._begun_sums = BegunSums()

    @property
    def finished(self) -> frozenset[int]:
        """Units done in this attempt."""
        return frozenset(self._finished)

    @property
    def steady(self) -> bool:
        """Whether gradients have come alike for some steps; those of no samples always do."""
        return self._idle or (self._watch is not None and self._watch.steady)

    @property
    def stale(self) -> bool:
        """Whether something was sent ahead that is not what the units have come to."""
        return self._interrupted or (self._watch is not None and self._watch.stale)

    def begin(self, shares: Shares, rank: int, again: bool) -> None:
        """A step begins; other members mean other shares, so nothing is kept when it is begun again."""
        self._take_shares(shares, rank)
        if again:  # the collective that broke may still be writing into the old ones
            self._vector, self._other = self._layout.vector(), None
        self._result = self._vector
        self._weight = 0
        self._finished = set()
        self._last = self._ahead = None
        self._ahead_unit = -1
        self._idle = self._interrupted = False
        self._begun_sums = BegunSums()
        if self._watch is not None:
            self._watch.begin()

    # One unit, and what is sent of it ahead.

    def go_ahead(self, unit: int, ahead: Ahead) -> None:
        """Follow the backward pass of the unit just started, and send its buckets if asked to."""
        if len(self._buckets) == 1 or self._narrow or ahead.by.world == 1:
            return
        self._begun_sums.go_by(ahead.by)
        if not self._shares.counts[unit]:
            self._idle = True
            return
        if self._watch is None:
            self._watch = BackwardWatch(self._layout, self._buckets, self._send_ahead)
        self._ahead, self._ahead_unit = ahead, unit
        self._result = self._target()
        self._watch.open(sending=ahead.sending)

    def body_over(self) -> None:
        """See whether what was sent is what there is."""
        if self._watch is not None:
            self._watch.close()

    def _send_ahead(self, bucket: Bucket, gradients: Sequence[Tensor | None]) -> None:
        assert self._ahead is not None
        divide = self._ahead.divide
        if divide > 1:
            gradients = [None if gradient is None else gradient / divide for gradient in gradients]
        self._write(bucket, gradients, self._shares.counts[self._ahead_unit])
        self._begun_sums.send(self._result.full[bucket.start : bucket.stop])

    def finish(self, unit: int) -> None:
        """Add the unit's gradient to this worker's sum, or keep it if it is the last one."""
        self._finished.add(unit)
        count = self._shares.counts[unit]
        if not count:
            self._layout.clear()
        elif unit == self._ahead_unit:
            self._last, self._ahead_unit = _LastUnit(self._layout.take(), count), -1
            if self.observe is not None:
                self._scratch = self._scratch or self._layout.vector()
                torch._foreach_copy_(self._scratch.views, self._last.pieces)
                self._show(self._scratch)
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
        self._scratch = self._scratch or self._layout.vector()
        self._layout.collect(self._scratch)
        self._show(self._scratch)
        self._vector.gradients.add_(self._scratch.gradients, alpha=factor)

    def _show(self, vector: GradientVector) -> None:
        if self.observe is not None:
            self.observe(vector.gradients)

    # The reduction.

    def reduce(self, group: Collective | None, tail: int) -> GradientVector:
        """The mean over all members' units."""
        if group is None or group.world == 1:
            return self._reduce_whole(None, tail)
        if len(self._buckets) == 1 and not self._narrow:
            return self._reduce_whole(group, tail)
        if not self._begun_sums.sent:
            self._result = self._target()
        self._send_rest(group)
        self._make_room(tail)
        self._write_tail(self._result, tail)
        group.all_reduce(self._result.full[self._layout.size : self._layout.size + tail])
        self._begun_sums.order()
        return self._result

    def repeat(self, group: Collective) -> GradientVector:
        """The gradients again, from what the units have come to."""
        result, self._result = self._result, self._target()
        size = min(len(result.tail), len(self._result.tail))
        self._result.tail[:size].copy_(result.tail[:size])
        self._begun_sums = BegunSums(self._begun_sums.by)
        self._send_rest(group)
        self._begun_sums.order()
        return self._result

    def complete(self, group: Collective) -> None:
        """Send the rest of the order as it is; if that is anything, it was not what the units will come to."""
        if len(self._buckets) == 1 or self._narrow:
            return
        if self._watch is not None:
            self._watch.stop()
        if not self._begun_sums.sent:
            self._result = self._target()
        if self._begun_sums.sent < len(self._buckets):
            self._interrupted = True
            self._send_rest(group)
        self._begun_sums.order()

    def believed(self) -> None:
        """Let the last unit's gradients go."""
        self._last = None

    def _send_rest(self, group: Collective) -> None:
        pieces, count = (self._last.pieces, self._last.count) if self._last is not None else (None, 0)
        for bucket in self._buckets[self._begun_sums.sent :]:
            own = None if pieces is None else [pieces[index] for index in bucket.places]
            self._write(bucket, own, count)
            piece = self._result.full[bucket.start : bucket.stop]
            if self._narrow:
                narrow_sum(group, piece)
            else:
                self._begun_sums.send_through(group, piece)

    def _reduce_whole(self, group: Collective | None, tail: int) -> GradientVector:
        self._merge_last()
        self._result = self._vector
        self._make_room(tail)
        vector, share = self._vector, self._weight / self._shares.total
        if not share:
            vector.gradients.zero_()
        elif share != 1.0:
            vector.gradients.mul_(share)
        self._write_tail(vector, tail)
        if group is not None:
            group.all_reduce(vector.full[: self._layout.size + tail])
        return vector

    def _merge_last(self) -> None:
        """Others are gone: the last unit is one like the rest."""
        last, self._last = self._last, None
        if last is None:
            return
        if self._weight:
            torch._foreach_add_(self._vector.views, last.pieces, alpha=last.count / self._weight)
        else:
            torch._foreach_copy_(self._vector.views, last.pieces)
            self._weight = last.count

    def _target(self) -> GradientVector:
        """Where this step's result is made: beside the sum of earlier units, which is kept until it is believed."""
        if not self._weight:
            return self._vector
        if self._other is None:
            self._other = self._layout.vector(len(self._vector.tail))
        return self._other

    @torch.no_grad()
    def _write(self, bucket: Bucket, pieces: Sequence[Tensor | None] | None, count: int) -> None:
        """This worker's part of the mean, for one bucket: the bits that adding and scaling the whole would give."""
        whole, share = slice(bucket.start, bucket.stop), (self._weight or count) / self._shares.total
        out = self._result.full[whole]
        if not share:
            out.zero_()
            return
        views = [self._result.views[index] for index in bucket.places]
        dense = [
            torch.zeros_like(view) if piece is None else piece.to(view.dtype)
            for piece, view in zip(pieces or (), views, strict=pieces is not None)
        ]
        if dense and self._weight:
            sums = [self._vector.views[index] for index in bucket.places]
            for view, before, piece in zip(views, sums, dense, strict=True):
                torch.add(before, piece, alpha=count / self._weight, out=view)
            out.mul_(share)
        elif self._weight:
            torch.mul(self._vector.full[whole], share, out=out)
        elif dense and out.is_cpu:
            for view, piece in zip(views, dense, strict=True):
                torch.mul(piece, share, out=view)
        elif dense:
            torch._foreach_copy_(views, dense)
            out.mul_(share)

    def _make_room(self, tail: int) -> None:
        if len(self._result.tail) >= tail:
            return
        self._begun_sums.order()
        larger = self._layout.vector(2 * tail + _SPARE)
        larger.gradients.copy_(self._result.gradients)
        if self._result is self._vector:
            self._vector = larger
        else:
            self._other = larger
        self._result = larger
