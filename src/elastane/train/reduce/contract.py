"""A reducer takes in the gradients of this worker's units and leaves the mean of all units.

A *unit* is a piece of the global batch with one forward and backward: a virtual rank in consistent mode, a
worker's share (or one accumulation pass of it) otherwise.  A reducer never decides who owns which unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from elastane.train.reduce.gradients import GradientVector


class Collective(Protocol):
    """The operations a reducer may use; each raises ``MembershipChanged`` when the group has broken."""

    rank: int
    world: int

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum over all members, in place; the same bits everywhere."""
        ...

    def all_gather(self, output: Tensor, tensor: Tensor) -> None:
        """``output`` becomes the members' tensors (equal sizes), one after the other in rank order.

        ``tensor`` may be this member's own part of ``output``.
        """
        ...

    def all_to_all(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> None:
        """Part r of ``tensor`` goes to rank r; ``output`` holds what each rank sent here, in rank order."""
        ...


class Begun(Protocol):
    """A sum under way."""

    def order(self) -> None:
        """What the current stream gets from now on comes after it; raises ``MembershipChanged`` if it has broken."""
        ...


class Sender(Protocol):
    """What begins sums and does not wait for them, one after the other in the order of the calls."""

    rank: int
    world: int

    def reduce(self, vector: Tensor) -> Begun:
        """Begin to sum over all members, in place; ``vector`` must be left alone until that is ordered."""
        ...


@dataclass(frozen=True, slots=True)
class Ahead:
    """How the buckets of a worker's last unit may be reduced while its backward pass runs."""

    by: Sender
    sending: bool
    """Send them; else only see whether that could have been done."""
    divide: int = 1
    """Gradients are of a sum over so many samples."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The units of one step: how many samples each has, and which rank owns it."""

    counts: tuple[int, ...]
    owner: tuple[int, ...]

    @property
    def total(self) -> int:
        """Samples of the whole step."""
        return sum(self.counts)

    @property
    def even(self) -> bool:
        """Whether every unit has the same number of samples."""
        return len(set(self.counts)) == 1

    def owned_by(self, rank: int) -> list[int]:
        """The units of one rank, ascending."""
        return [unit for unit, owner in enumerate(self.owner) if owner == rank]


class Reducer(Protocol):
    """One step: ``begin``; for each owned unit ``start`` and ``finish``; then ``reduce``.

    Units without samples may be left out.  After a failure ``begin`` is called again, with new shares for the
    same step; a reducer may keep the gradients of units it has finished (``finished``) if their meaning did
    not change, else it drops them.
    """

    def watch(self, observe: Callable[[Tensor], None] | None) -> None:
        """From now on show the raw gradient of every finished unit to ``observe``, or to nobody (which is cheaper)."""
        ...

    @property
    def finished(self) -> frozenset[int]:
        """Units whose gradient is held already and need not be computed again."""
        ...

    def begin(self, shares: Shares, rank: int, again: bool) -> None:
        """A step begins, or (``again``) the same step is resumed by other members."""
        ...

    def start(self, unit: int) -> None:
        """This unit's backward comes next: no parameter has a gradient."""
        ...

    def go_ahead(self, unit: int, ahead: Ahead) -> None:
        """The unit just started is this worker's last: its gradients may be sent as they come."""
        ...

    def body_over(self) -> None:
        """The script is done with the unit; nothing is sent ahead any more."""
        ...

    @property
    def steady(self) -> bool:
        """Whether gradients come here in such a way that they can be sent ahead."""
        ...

    @property
    def stale(self) -> bool:
        """Whether something else was sent ahead than what the units have come to: all have to ``repeat``."""
        ...

    def finish(self, unit: int) -> None:
        """The unit's backward is done: take its gradients away (a unit with 0 samples counts nothing)."""
        ...

    def reduce(self, group: Collective | None, tail: int) -> GradientVector:
        """The sample-weighted mean of all units' gradients; ``group`` is None for a single worker.

        The first ``tail`` numbers behind the gradients of every member are summed on the way (each member
        writes only its own, the others are zero, so the sum is exact).  ``tail_of`` says where to write.
        The vector stays as it is until the next step finishes a unit.
        """
        ...

    def repeat(self, group: Collective) -> GradientVector:
        """Reduce the gradients once more, without the tail, and not from what was sent ahead."""
        ...

    def complete(self, group: Collective) -> None:
        """Send whatever has not been sent of this step's order: another collective is about to begin."""
        ...

    def believed(self) -> None:
        """The mean is to be believed: what it was made of is not needed any more."""
        ...

    def tail_of(self, size: int) -> Tensor:
        """``size`` zeros to be filled in before ``reduce``."""
        ...
