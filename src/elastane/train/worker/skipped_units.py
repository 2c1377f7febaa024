"""Parts of a batch that the script skips: bodies that end (``continue``) without ``opt.step()`` and without a gradient.

A skipped part counts neither gradient nor samples; the step is the mean over the rest, on whichever worker.  What
the script does behind ``opt.step()`` (schedulers, counters) must happen on all workers or on none.  So a worker whose
last part is skipped runs another of its parts once more, to come by there; one that has none left is *absent*, and
does not make the step itself: it takes over the state of one that was not, where they meet next.  If nobody is left
to take it from, the step is computed again.  If every part is skipped there is no step.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from elastane.train.errors import TrainError
from elastane.train.reduce.contract import Shares
from elastane.train.worker.membership import Membership
from elastane.train.worker.piggyback_table import Column, Table


class SkippedParts:
    """What one worker knows of the parts skipped in the present step."""

    def __init__(self) -> None:
        self.units: set[int] = set()
        """Own units that were skipped."""
        self.closing = False
        """The unit that runs now is computed already: it only takes the script past ``opt.step()``."""
        self.absent = False
        """This worker's script has not come by ``opt.step()``."""
        self.others_absent = False
        """After the reduction: somebody's script has not, so it cannot take part in what this one does there."""
        self.source: int | None = None
        """The rank whose state the absent take over at the next boundary."""
        self.called = False
        """Something was called that the absent have missed."""

    def begin(self) -> None:
        """Forget what was skipped in the step before."""
        self.units, self.closing, self.absent, self.others_absent = set(), False, False, False

    def begin_again(self, kept: Collection[int]) -> None:
        """It is computed again, but for the units that are kept."""
        self.units &= set(kept)
        self.closing = self.called = False

    def skip(self, unit: int) -> None:
        """The script has skipped an own unit."""
        self.units.add(unit)

    def close(self) -> None:
        """The next unit is computed already: it only takes the script past ``opt.step()``."""
        self.closing = True

    def stay_away(self) -> None:
        """This worker has no unit left with which its script could come by ``opt.step()``."""
        self.absent = True

    def come_by(self) -> None:
        """There are units left to compute: whether the script comes by ``opt.step()`` is open again."""
        self.absent = False

    def take_source(self) -> int | None:
        """The rank whose state the absent take over, once; None if nobody was absent."""
        source, self.source = self.source, None
        return source

    @property
    def behind(self) -> bool:
        """Whether this worker leaves the step to others, and takes over what they made of it."""
        return self.absent and self.source is not None

    def last_trained(self, shares: Shares, rank: int) -> int | None:
        """An own unit with samples that was not skipped."""
        trained = [u for u in shares.owned_by(rank) if shares.counts[u] and u not in self.units]
        return trained[-1] if trained else None

    def say(self, row: list[float], shares: Shares) -> None:
        """Into this worker's row of the table."""
        row[Column.SKIPPED] = float(sum(shares.counts[unit] for unit in self.units))
        row[Column.ABSENT] = float(self.absent)

    def hear(self, table: Table) -> int:
        """What all have said; returns the number of samples skipped."""
        absent: Sequence[float] = table.all(Column.ABSENT)
        skipped = round(sum(table.all(Column.SKIPPED)))
        self.others_absent = any(absent)
        self.source = list(absent).index(0.0) if any(absent) and not all(absent) else None
        return skipped

    def impossible(self) -> bool:
        """A collective in the loop body, behind ``opt.step()``: an absent worker would not come to it.

        If so all workers end at the boundary, where they meet again: one alone would only be replaced.
        """
        self.called = self.called or self.others_absent
        return self.others_absent

    def meet(self, membership: Membership) -> None:
        """All workers, at the boundary: see that nobody missed anything that cannot be made good."""
        called, self.called = self.called, False
        flags = torch.tensor([float(called)])
        assert membership.group is not None
        membership.group.all_reduce(flags)
        if flags.item():
            raise TrainError(
                "a worker skipped its part of a batch (continue), so it did not come to a job.all_reduce(...) or "
                "job.evaluate(...) in the loop body; call them behind the loop, or skip no parts"
            )
