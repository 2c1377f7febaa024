"""Computes transfer times of many even layouts at once: ``models.placement.Layout.transfer_s`` in closed form."""

from __future__ import annotations

import numpy as np

from elastane.models.speed import FloatArray, IntArray


def even_transfer(nodes: IntArray, servers: IntArray, workers: IntArray) -> FloatArray:
    """Returns T for unit model and bandwidth, servers and workers spread evenly, the odd ones on the same nodes.

    T = max( w − least w_k where p_k > 0,  p − least p_k where w_k > 0 ) / p.  Nodes are filled from the first on,
    so the least of one kind, among nodes that hold the other, is on the last of these.
    """
    local_workers = _on_node(workers, nodes, np.minimum(servers, nodes) - 1)
    local_servers = _on_node(servers, nodes, np.minimum(workers, nodes) - 1)
    out: FloatArray = np.maximum(workers - local_workers, servers - local_servers) / servers
    return out


def _on_node(count: IntArray, nodes: IntArray, index: IntArray) -> IntArray:
    """Returns how many of ``count`` stand on the node at ``index``."""
    out: IntArray = count // nodes + (index < count % nodes)
    return out
