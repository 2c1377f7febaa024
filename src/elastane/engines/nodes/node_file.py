"""Keeps what is known of a joined node in a file: the hub writes it, the engine and people read it."""

from __future__ import annotations

import msgspec

from elastane.cluster import Node
from elastane.engines.contract import NodeFacts
from elastane.engines.local.json_files import read_json, write_json
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.messages import NodeDevice, NodeHello

_FORMER = 20
"""Incarnations that are remembered."""


class NodeFile(msgspec.Struct, frozen=True):
    """A node as it described itself, and what the hub knows besides."""

    hello: NodeHello
    present: bool = False
    """Whether it counts: it has a line, and has ended what it was told to end."""
    suspect: bool = False
    """Whether it has been silent for a while, so that nothing new is placed there."""
    unfit: str = ""
    """Why nothing may be placed there at all."""
    blind: bool = False
    """Whether it does not see what is written below the home of the head."""
    former: tuple[str, ...] = ()
    """Incarnations before this one; none of them is let in again."""
    seen_s: float = 0.0
    leaving_s: float | None = None
    """In how many seconds it will be taken away, if it said so."""

    @property
    def devices(self) -> tuple[NodeDevice, ...]:
        """The accelerators that are used: those of the type of which there are most, for a node has one type."""
        groups: dict[tuple[str, float], list[NodeDevice]] = {}
        for device in self.hello.devices:
            groups.setdefault((device.kind, device.memory_gb), []).append(device)
        most = max(map(len, groups.values()), default=0)
        return next((tuple(group) for group in groups.values() if len(group) == most), ())

    def node(self) -> Node:
        """The node as policies see it."""
        hello, devices = self.hello, self.devices
        if devices:
            kind, memory_gb = devices[0].kind, devices[0].memory_gb
            return Node(hello.node, len(devices), kind, memory_gb, float(hello.cores), hello.memory_gb)
        return Node(hello.node, hello.cores, "cpu", cpus=float(hello.cores), memory_gb=hello.memory_gb)

    def facts(self) -> NodeFacts:
        """What the engine tells of it besides."""
        return NodeFacts(
            incarnation=self.hello.incarnation,
            address=self.hello.address,
            pool=self.hello.pool,
            accelerators=tuple(device.id for device in self.devices),
            unfit=self.unfit,
            suspect=self.suspect,
            leaving_s=self.leaving_s,
            cores=self.hello.cores,
            memory_gb=self.hello.memory_gb,
            blind=self.blind,
        )


def write_node(layout: Layout, name: str, file: NodeFile) -> None:
    """Replace what is known of a node."""
    kept = msgspec.structs.replace(file, former=file.former[-_FORMER:])
    write_json(layout.joined(name), msgspec.to_builtins(kept))


def read_node(layout: Layout, name: str) -> NodeFile | None:
    """What is known of a node; None for one that is not on another machine."""
    values = read_json(layout.joined(name))
    try:
        return msgspec.convert(values, NodeFile) if values is not None else None
    except msgspec.ValidationError:
        return None
