"""Keeps account of the free capacity of each node while grants are being laid out."""

from __future__ import annotations

import math
from collections.abc import Mapping

from elastane.cluster import Grant, Node
from elastane.policies.view import Request, View
from elastane.resources import Resources


class Room:
    """Free capacity per node, nodes by name.  Nodes and tasks that account only GPUs take a fast path."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        # Sorted, so that no result depends on the order in which nodes were listed.
        self.nodes = {i: nodes[i] for i in sorted(nodes)}
        self.free_gpus = {i: (0 if node.draining else node.gpus) for i, node in self.nodes.items()}
        # One accounted resource is enough: a node may limit its CPUs and leave its network unlimited.
        finite = any(math.isfinite(min(n.cpus, n.memory_gb, n.bandwidth_gbps)) for n in nodes.values())
        self._free = {i: node.capacity for i, node in self.nodes.items()} if finite else None
        self._devices: set[tuple[str, int]] = set()

    @classmethod
    def of(cls, view: View) -> Room:
        """Returns the whole room of a view; on draining nodes only what pinned jobs will take back."""
        room = cls(view.nodes)
        room.free_gpus.update(view.kept_on_draining())
        return room

    def total_free_gpus(self) -> int:
        """Returns the GPUs that are not yet taken, over all nodes."""
        return sum(self.free_gpus.values())

    def fits(self, node: str, request: Request, workers: int, servers: int = 0) -> bool:
        """Whether that many tasks fit on the node now."""
        if request.gpus_of(workers) > self.free_gpus[node]:
            return False
        return self._free is None or _demand(request, workers, servers).fits(self._free[node])

    def workers_fit(self, node: str, request: Request) -> int:
        """How many more workers of this job the node could take."""
        if self._free is None and request.worker.gpus == 1.0:
            return self.free_gpus[node]
        free = self._free[node] if self._free else self.nodes[node].capacity
        return _workers_in(self.free_gpus[node], free, request.worker)

    def workers_ever(self, node: str, request: Request) -> int:
        """How many workers of this job the node could take if it were empty."""
        whole = self.nodes[node]
        return _workers_in(whole.gpus, whole.capacity, request.worker)

    def take(self, grant: Grant, request: Request) -> None:
        """Occupy what the grant holds."""
        for part in grant.slices:
            self.free_gpus[part.node] -= request.gpus_of(part.workers)
            if part.devices:
                self._devices.update((part.node, device) for device in part.devices)
            if self._free is not None:
                demand = _demand(request, part.workers, part.servers)
                self._free[part.node] = self._free[part.node] - demand

    def holds(self, grant: Grant, request: Request) -> bool:
        """Tells whether the whole grant would fit, on nodes that exist and devices not yet taken."""
        for part in grant.slices:
            free = self.free_gpus.get(part.node)
            if free is None or request.gpus_of(part.workers) > free:
                return False
            if self._free is not None and not self.fits(part.node, request, part.workers, part.servers):
                return False
            if part.devices and any((part.node, device) in self._devices for device in part.devices):
                return False
        return True


def _workers_in(gpus: int, free: Resources, worker: Resources) -> int:
    limits = [
        (gpus, worker.gpus),
        (free.cpus, worker.cpus),
        (free.memory_gb, worker.memory_gb),
        (free.bandwidth_gbps, worker.bandwidth_gbps),
    ]
    smallest = min((have / need + 1e-9 for have, need in limits if need > 0), default=0.0)
    return int(smallest) if math.isfinite(smallest) else 0


def _demand(request: Request, workers: int, servers: int) -> Resources:
    demand = request.worker * workers
    return demand + request.server * servers if request.server and servers else demand
