"""Describes a cluster: its nodes, and the links between the zones they stand in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from elastane.errors import ElastaneError
from elastane.resources import Resources


class Tier(Enum):
    """The place of a node: at the edge (near the data, expensive) or in the cloud (far away, plentiful)."""

    EDGE = "edge"
    CLOUD = "cloud"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine.  An unlimited (infinite) CPU, memory or bandwidth means "not accounted"."""

    id: str
    gpus: int
    gpu_type: str = "t4"
    gpu_memory_gb: float = 16.0
    cpus: float = math.inf
    memory_gb: float = math.inf
    bandwidth_gbps: float = math.inf
    rack: str = ""
    zone: str = ""
    tier: Tier = Tier.CLOUD
    owner: str | None = None
    price_per_gpu_h: float = 0.0
    draining: bool = False

    def __post_init__(self) -> None:
        if self.gpus < 0:
            raise ElastaneError(f"node {self.id}: gpus must be 0 or more, not {self.gpus}")

    @property
    def capacity(self) -> Resources:
        """Everything the node can give, as one vector."""
        return Resources(float(self.gpus), self.cpus, self.memory_gb, self.bandwidth_gbps)


@dataclass(frozen=True, slots=True)
class Link:
    """Bandwidth and latency between two zones (symmetric)."""

    bandwidth_gbps: float = math.inf
    latency_s: float = 0.0


@dataclass(frozen=True)
class Cluster:
    """Nodes by id, in a stable order, and the links between zones."""

    nodes: Mapping[str, Node]
    links: Mapping[frozenset[str], Link] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Node], links: Mapping[frozenset[str], Link] | None = None) -> Cluster:
        """Makes a cluster of these nodes; ids must differ."""
        by_id: dict[str, Node] = {}
        for node in nodes:
            if node.id in by_id:
                raise ElastaneError(f"two nodes share the id {node.id!r}")
            by_id[node.id] = node
        return cls(by_id, links or {})

    @classmethod
    def uniform(cls, nodes: int, gpus_per_node: int, gpu_type: str = "t4") -> Cluster:
        """Makes a cluster of ``nodes`` equal machines named ``n000``, ``n001``, …"""
        if nodes < 1 or gpus_per_node < 1:
            raise ElastaneError(
                f"a cluster needs at least one node and one GPU per node, not {nodes} x {gpus_per_node}"
            )
        width = max(3, len(str(nodes - 1)))
        return cls.of(Node(f"n{i:0{width}d}", gpus_per_node, gpu_type) for i in range(nodes))

    @property
    def total_gpus(self) -> int:
        """GPUs over all nodes, healthy or not."""
        return sum(node.gpus for node in self.nodes.values())

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Accelerator types present, sorted."""
        return tuple(sorted({node.gpu_type for node in self.nodes.values() if node.gpus}))

    def without(self, down: Iterable[str]) -> Cluster:
        """Returns the cluster without the nodes in ``down``."""
        gone = set(down)
        return replace(self, nodes={i: n for i, n in self.nodes.items() if i not in gone})

    def staging_s(self, source_zone: str, target_zone: str, gigabytes: float) -> float:
        """Returns the seconds to copy a data set from one zone to another; 0 when it is already there."""
        if source_zone == target_zone or gigabytes <= 0:
            return 0.0
        link = self.links.get(frozenset((source_zone, target_zone)), Link())
        return link.latency_s + gigabytes * 8.0 / link.bandwidth_gbps
