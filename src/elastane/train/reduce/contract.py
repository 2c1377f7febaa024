"""What a reducer is: it takes in the gradients of this worker's units and leaves the mean of all units.

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

    def tail_of(self, size: int) -> Tensor:
        """``size`` zeros to be filled in before ``reduce``."""
        ...
