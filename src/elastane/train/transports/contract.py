"""A ``Transport`` sums vectors over the members of one generation; it may be aborted from any thread at any time.

An aborted collective of NCCL looks like success to the device: its stream goes on, over garbage.  So every
transport has the same rule, and the same words for it: a sum may be *ordered* (work that the current stream
gets from now on comes after it), but only a sum that is *finished* (the host has waited, and nobody has
aborted) may change a parameter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

from torch import Tensor

from elastane.train.device import Mark
from elastane.train.errors import MembershipChanged
from elastane.train.reduce.contract import Collective
from elastane.train.transport_choice import TransportKind as TransportKind


class NoTransport(Exception):
    """This transport cannot be had here (one line says why); another one can."""


class HostSum(Protocol):
    """A sum of tensors of the host under way."""

    def finish(self) -> None:
        """Wait; raises ``MembershipChanged`` unless the sum is whole."""
        ...


class HostGroup(Collective, Protocol):
    """What moves tensors of the host: the worker's gloo group."""

    def start_all_reduce(self, tensor: Tensor) -> HostSum:
        """Begin to sum over all members, in place."""
        ...

    def kill(self) -> None:
        """End any collective that is under way; harmless to repeat."""
        ...


class Pending(ABC):
    """A collective under way."""

    @abstractmethod
    def order(self) -> None:
        """Have what the current stream gets from now on come after it; says nothing of success."""

    @abstractmethod
    def finish(self) -> None:
        """Wait; raises ``MembershipChanged`` unless the sum is whole."""


class Done(Pending):
    """A collective that has ended already, on the host or in the order of the current stream."""

    def order(self) -> None:
        """It is in order."""

    def finish(self) -> None:
        """Nothing is left to wait for."""


class Transport(ABC):
    """The members' vectors meet here; a ``Collective`` for reducers."""

    kind: ClassVar[TransportKind]

    def __init__(self, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world

    def enter(self) -> None:  # noqa: B027 (most have nothing to do)
        """The boundary is reached: collectives may begin, those of the transport before have ended."""

    @abstractmethod
    def reduce(self, vector: Tensor) -> Pending:
        """Begin to sum over all members, in place; ``vector`` must be left alone until that is finished."""

    @abstractmethod
    def gather(self, output: Tensor, tensor: Tensor) -> Pending:
        """Begin to make ``output`` the members' tensors (equal sizes), one after the other in rank order."""

    @abstractmethod
    def swap(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> Pending:
        """Begin to send part r of ``tensor`` to rank r; ``output`` gets what each rank sent here, in rank order."""

    @abstractmethod
    def abort(self) -> None:
        """End any collective that is under way, from any thread; returns at once, harmless to repeat."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; nothing is under way."""

    @property
    @abstractmethod
    def aborted(self) -> bool:
        """Whether ``abort`` was called; true before any collective ends because of it."""

    def check(self) -> None:
        """Raise ``MembershipChanged`` if aborted; to be asked after every time the host has waited for the device."""
        if self.aborted:
            raise MembershipChanged("the collective was aborted")

    def confirm(self, moment: Mark) -> None:
        """Wait for a moment of the device behind an ordered sum; raises ``MembershipChanged`` unless that is whole."""
        moment.wait()
        self.check()

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum over all members, in place, and wait."""
        self.reduce(tensor).finish()

    def all_gather(self, output: Tensor, tensor: Tensor) -> None:
        """Gathers equal blocks of all members, and waits."""
        self.gather(output, tensor).finish()

    def all_to_all(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> None:
        """Exchanges blocks between all members, and waits."""
        self.swap(output, tensor, output_splits, input_splits).finish()

    @property
    def in_order(self) -> Collective:
        """The same collectives for reducers, which only order them: ``confirm`` is the host's one wait."""
        return InOrder(self)


class InOrder:
    """The collectives of a transport without waits of the host: the current stream goes on behind each."""

    def __init__(self, transport: Transport) -> None:
        self.rank = transport.rank
        self.world = transport.world
        self._transport = transport

    def all_reduce(self, tensor: Tensor) -> None:
        """Orders a sum over all members."""
        self._transport.reduce(tensor).order()

    def all_gather(self, output: Tensor, tensor: Tensor) -> None:
        """Orders a gathering of equal blocks."""
        self._transport.gather(output, tensor).order()

    def all_to_all(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> None:
        """Orders an exchange of blocks."""
        self._transport.swap(output, tensor, output_splits, input_splits).order()
