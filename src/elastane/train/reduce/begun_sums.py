"""``BegunSums`` holds one step's buckets on their way: begun in order, from hooks of autograd or behind the pass."""

from __future__ import annotations

from torch import Tensor

from elastane.train.errors import MembershipChanged
from elastane.train.reduce.contract import Begun, Collective, Sender


class BegunSums:
    """Sums that have been begun; one that breaks is told of when they are ordered, never in a hook."""

    def __init__(self, by: Sender | None = None) -> None:
        """``by`` is what they are begun by; without it each is waited for."""
        self.by = by
        self.sent = 0
        """How many buckets have been begun."""
        self._under_way: list[Begun] = []
        self._kept: list[Begun] = []
        self._broken = ""

    def go_by(self, by: Sender) -> None:
        """From now on sums are begun by this."""
        self.by = by

    def send(self, piece: Tensor) -> None:
        """Begin the next one."""
        assert self.by is not None
        self.sent += 1
        if self._broken:
            return
        try:
            self._under_way.append(self.by.reduce(piece))
        except MembershipChanged as error:
            self._broken = str(error) or "broken"  # its traceback would keep the group alive

    def send_through(self, group: Collective, piece: Tensor) -> None:
        """Begin the next one behind the backward pass, where a break may be told at once."""
        if self.by is not None:
            self.send(piece)
        else:
            self.sent += 1
            group.all_reduce(piece)

    def order(self) -> None:
        """What comes next on the current stream comes after all of them; raises ``MembershipChanged``."""
        if self._broken:
            raise MembershipChanged(self._broken)
        under_way, self._under_way = self._under_way, []
        self._kept += under_way  # on a device they may be under way still, with their tensors
        for each in under_way:
            each.order()
