"""Compares paired figures over seeds, with Student-t intervals.

A seed is the unit of replication: jobs of one run wait for each other, so that counting each as an observation of its
own would make intervals far too narrow.  Both sides of a pair ran the same jobs under the same physics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from elastane.sim.report.compare import figure


class Verdict(Enum):
    """The conclusion that an interval allows about the other side, against the reference."""

    BETTER = "better"
    WORSE = "worse"
    UNSURE = "cannot tell"
    SAME = "the same"


@dataclass(frozen=True)
class Difference:
    """Other side against reference, with its 95 % interval (None with a single seed).

    ``relative``: a ratio minus one (−0.1 is 10 % less), else plain subtraction.
    """

    value: float
    low: float | None
    high: float | None
    relative: bool

    def verdict(self, lower_is_better: bool) -> Verdict:
        """Returns better or worse only where the whole interval is on one side of zero."""
        if self.value == 0.0 and self.low == self.high:
            return Verdict.SAME
        if self.low is None or self.high is None or self.low <= 0.0 <= self.high:
            return Verdict.UNSURE
        return Verdict.BETTER if (self.value < 0.0) == lower_is_better else Verdict.WORSE


def paired(
    other: Sequence[float | None], reference: Sequence[float | None], relative: bool
) -> Difference | None:
    """Returns the mean difference of pairs by seed; None where a side lacks a figure, or a ratio has no meaning.

    Ratios are averaged as logarithms, so that twice as long and half as long cancel.
    """
    if len(other) != len(reference):
        raise ValueError("paired figures need the same seeds on both sides")
    steps: list[float | None] = []
    for ours, theirs in zip(other, reference, strict=True):
        if ours is None or theirs is None or (relative and (ours <= 0.0 or theirs <= 0.0)):
            return None
        steps.append(math.log(ours / theirs) if relative else ours - theirs)
    found = figure(steps)
    if found is None:
        return None
    low, high = (
        (None, None)
        if found.half_width is None
        else (found.mean - found.half_width, found.mean + found.half_width)
    )
    if not relative:
        return Difference(found.mean, low, high, relative)
    return Difference(
        math.expm1(found.mean),
        None if low is None else math.expm1(low),
        None if high is None else math.expm1(high),
        relative,
    )
