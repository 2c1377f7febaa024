"""``Peer`` is one connection that has logged in; ``ForkServerTable`` knows the fork servers that may start workers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from elastane.train.coordinator import wire
from elastane.train.coordinator.wire import Message


@dataclass(slots=True)
class Peer:
    """A worker, a fork server or a client that is connected."""

    role: str
    name: str
    writer: asyncio.StreamWriter
    heard_s: float = 0.0
    beats: bool = False
    """Whether it promised signs of life; a fork server of an earlier version does not."""
    stale: set[str] = field(default_factory=set)
    """Of a fork server that comes back: workers it still has that were given up, until it has ended them."""

    def write(self, message: Message) -> None:
        """Say something to it, unless it is on its way out."""
        if not self.writer.is_closing():
            self.writer.write(wire.encode_message(message))


class ForkServerTable:
    """One fork server per node: those that may start workers, and those that still have to end some from before."""

    def __init__(self) -> None:
        self.ready: dict[str, Peer] = {}
        self.returning: dict[str, Peer] = {}
        self._met: set[str] = set()

    @property
    def all(self) -> Sequence[Peer]:
        """Every fork server that is connected."""
        return [*self.ready.values(), *self.returning.values()]

    @property
    def nodes(self) -> Collection[str]:
        """Nodes on which somebody is there who can start workers, or soon will."""
        return self.ready.keys() | self.returning.keys()

    def was_met(self, node: str) -> bool:
        """Whether this node ever had a fork server that we know of."""
        return node in self._met

    def admit(self, peer: Peer) -> bool:
        """Take one in, in place of the node's earlier one; whether it is the node's first."""
        for known in (self.ready, self.returning):
            old = known.pop(peer.name, None)
            if old is not None:
                old.writer.close()
        self.returning[peer.name] = peer
        first = peer.name not in self._met
        self._met.add(peer.name)
        return first

    def counts_now(self, peer: Peer) -> bool:
        """Whether it may start workers from now on: it has none any more that were given up while it was away."""
        if peer.stale or self.returning.get(peer.name) is not peer:
            return False
        del self.returning[peer.name]
        self.ready[peer.name] = peer
        return True

    def forget(self, peer: Peer) -> bool:
        """Whether it was this one that its node had."""
        for known in (self.ready, self.returning):
            if known.get(peer.name) is peer:
                del known[peer.name]
                return True
        return False
