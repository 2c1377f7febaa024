"""``GlooCpu`` sums tensors of the host over the worker's gloo group, where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from elastane.train.reduce.contract import Collective
from elastane.train.transports.contract import Done, HostGroup, Pending, Transport, TransportKind
from elastane.train.transports.lane import Errand, Lane


class _Sum(Pending):
    def __init__(self, errand: Errand[None]) -> None:
        self._errand = errand

    def order(self) -> None:
        self._errand.result()

    def finish(self) -> None:
        self._errand.result()


class GlooCpu(Transport):
    """Blocking calls are the group's own; only ``reduce`` has a thread."""

    kind: ClassVar[TransportKind] = TransportKind.GLOO_CPU

    def __init__(self, group: HostGroup) -> None:
        super().__init__(group.rank, group.world)
        self._group = group
        self._aborted = False
        self._lane = Lane("gloo-lane")
        self._last: Errand[None] | None = None

    @property
    def aborted(self) -> bool:
        """Whether ``abort`` was called."""
        return self._aborted

    def reduce(self, vector: Tensor) -> Pending:
        """Begins to sum a vector over all members with the gloo group."""
        self._last = self._lane.send(lambda: self._group.all_reduce(vector))
        return _Sum(self._last)

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum, in the calling thread."""
        self._catch_up()
        self._group.all_reduce(tensor)

    @property
    def in_order(self) -> Collective:
        """On the host there is no other order than that of the calls."""
        return self

    def gather(self, output: Tensor, tensor: Tensor) -> Pending:
        """Gathers in the calling thread."""
        self.all_gather(output, tensor)
        return Done()

    def swap(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> Pending:
        """Exchanges in the calling thread."""
        self.all_to_all(output, tensor, output_splits, input_splits)
        return Done()

    def all_gather(self, output: Tensor, tensor: Tensor) -> None:
        """Gathers equal blocks of all members with the gloo group."""
        self._catch_up()
        self._group.all_gather(output, tensor)

    def all_to_all(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> None:
        """Exchanges blocks between all members with the gloo group."""
        self._catch_up()
        self._group.all_to_all(output, tensor, output_splits, input_splits)

    def _catch_up(self) -> None:
        """Collectives happen in one order everywhere: what was begun comes first."""
        if self._last is not None:
            self._last.result()
            self._last = None

    def abort(self) -> None:
        """Shut the group's sockets."""
        self._aborted = True
        self._group.kill()

    def close(self) -> None:
        """End the thread; the group is its owner's."""
        self._lane.close()
