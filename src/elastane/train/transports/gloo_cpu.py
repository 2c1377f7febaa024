"""``GlooCpu`` sums tensors of the host over the worker's gloo group, where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from elastane.train.reduce.contract import Collective
from elastane.train.transports.contract import Done, HostGroup, HostSum, Pending, Transport, TransportKind


class _Sum(Pending):
    def __init__(self, started: HostSum, vector: Tensor) -> None:
        self._started, self._vector = started, vector

    def order(self) -> None:
        self._started.finish()

    def finish(self) -> None:
        self._started.finish()


class GlooCpu(Transport):
    """Calls are the group's own; gloo pairs collectives by the order in which they began, so none waits for another."""

    kind: ClassVar[TransportKind] = TransportKind.GLOO_CPU

    def __init__(self, group: HostGroup) -> None:
        super().__init__(group.rank, group.world)
        self._group = group
        self._aborted = False

    @property
    def aborted(self) -> bool:
        """Whether ``abort`` was called."""
        return self._aborted

    def reduce(self, vector: Tensor) -> Pending:
        """Begins to sum a vector over all members, in threads of gloo."""
        return _Sum(self._group.start_all_reduce(vector), vector)

    def all_reduce(self, tensor: Tensor) -> None:
        """Sums over all members, and waits."""
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
        self._group.all_gather(output, tensor)

    def all_to_all(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> None:
        """Exchanges blocks between all members with the gloo group."""
        self._group.all_to_all(output, tensor, output_splits, input_splits)

    def abort(self) -> None:
        """Shut the group's sockets."""
        self._aborted = True
        self._group.kill()

    def close(self) -> None:
        """The group is its owner's."""
