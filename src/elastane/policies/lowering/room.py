"""How much room is left on each node while grants are being laid out."""

from __future__ import annotations

import math
from collections.abc import Mapping

from elastane.cluster import Grant, Node
from elastane.policies.view import Request
from elastane.resources import Resources


class Room:
    """Free capacity per node, in node order.  Nodes and tasks that account only GPUs take a fast path."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes
        self.free_gpus = {i: (0 if node.draining else node.gpus) for i, node in nodes.items()}
        finite = any(math.isfinite(n.cpus + n.memory_gb + n.bandwidth_gbps) for n in nodes.values())
        self._free = {i: node.capacity for i, node in nodes.items()} if finite else None

    def total_free_gpus(self) -> int:
        """GPUs not yet taken."""
        return sum(self.free_gpus.values())

    def fits(self, node: str, request: Request, workers: int, servers: int = 0) -> bool:
        """Whether that many tasks fit on the node now."""
        if request.worker.gpus * workers > self.free_gpus[node]:
            return False
        return self._free is None or _demand(request, workers, servers).fits(self._free[node])

    def workers_fit(self, node: str, request: Request) -> int:
        """How many more workers of this job the node could take."""
        if self._free is None and request.worker.gpus == 1.0:
            return self.free_gpus[node]
        per = request.worker
        free = self._free[node] if self._free else self.nodes[node].capacity
        limits = [
            (self.free_gpus[node], per.gpus),
            (free.cpus, per.cpus),
            (free.memory_gb, per.memory_gb),
            (free.bandwidth_gbps, per.bandwidth_gbps),
        ]
        counts = [have / need + 1e-9 for have, need in limits if need > 0]
        smallest = min(counts, default=0.0)
        return int(smallest) if math.isfinite(smallest) else 0

    def take(self, grant: Grant, request: Request) -> None:
        """Occupy what the grant holds."""
        self._change(grant, request, 1)

    def give(self, grant: Grant, request: Request) -> None:
        """Return what the grant held."""
        self._change(grant, request, -1)

    def holds(self, grant: Grant, request: Request) -> bool:
        """Whether the whole grant would fit, on nodes that exist."""
        return all(
            part.node in self.free_gpus and self.fits(part.node, request, part.workers, part.servers)
            for part in grant.slices
        )

    def _change(self, grant: Grant, request: Request, sign: int) -> None:
        for part in grant.slices:
            self.free_gpus[part.node] -= sign * int(part.workers * request.worker.gpus)
            if self._free is not None:
                demand = _demand(request, part.workers, part.servers) * float(sign)
                self._free[part.node] = self._free[part.node] - demand


def _demand(request: Request, workers: int, servers: int) -> Resources:
    demand = request.worker * workers
    return demand + request.server * servers if request.server and servers else demand
