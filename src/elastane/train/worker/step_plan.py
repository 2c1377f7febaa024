"""``StepPlan`` cuts a step of the next samples into units, and finds those that this worker computes."""

from __future__ import annotations

from collections.abc import Callable

from elastane.train.reduce.contract import Shares
from elastane.train.worker.reductions import Reductions
from elastane.train.worker.step_cut import StepCut
from elastane.train.worker.step_parts import StepParts

Ready = Callable[[bool], frozenset[int]]
"""Makes reducers ready for a step (again); returns the units whose gradients are there already."""


class StepPlan:
    """Plans the steps of one worker."""

    def __init__(self, parts: StepParts, reductions: Reductions) -> None:
        self._parts = parts
        self._reductions = reductions
        self._cut = StepCut(parts.settings, parts.recipe)

    def make(self, ready: Ready, *, again: bool) -> None:
        """Cut the step into units and find the own ones; ``again`` after the group has broken in it."""
        parts, units, adaptation = self._parts, self._parts.units, self._parts.batching.adaptation
        m, skips, setups = parts.membership, parts.skips, parts.setups
        buffers, feed = setups.current.buffers, units.feed
        samples = feed.available(self._cut.wanted(feed, adaptation))
        if not samples:
            units.cut(Shares((), ()))
            return
        units.cut(self._cut.shares(samples, feed, adaptation, m.world, m.most))
        m.parts(max(units.shares.counts))
        if again:
            buffers.restore()
        else:
            buffers.snapshot()
            skips.begin()
            parts.times.begin()
        units.begin(parts.position.step)
        finished = ready(again)
        if not again:
            setups.structure.check()
        owned = units.shares.owned_by(m.rank)
        if again:
            self._reductions.keep(finished)
            skips.begin_again(finished)
            units.keep_last(finished)
        busy = [u for u in owned if units.shares.counts[u]]
        # A worker without samples runs the body once all the same (its gradient counts nothing), so that
        # schedulers and counters in the script move alike everywhere.
        units.hand_out(u for u in (busy or owned[:1]) if u not in finished)
        if units.left:
            skips.come_by()  # what is left to compute decides anew

    def forget(self) -> None:
        """Nothing counts of what was computed of the step: others are further on."""
        self._reductions.keep(())
        self._parts.units.keep_last(())
