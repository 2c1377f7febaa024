"""A job alone on given GPUs: how long from start to end, by its truth."""

from __future__ import annotations

from collections.abc import Callable

from elastane.cluster import Batch, Cluster, Grant
from elastane.lookahead.behaviour import Behaviour


def packed_grant(cluster: Cluster, gpus: int) -> Grant:
    """That many GPUs on the first nodes of the cluster, each filled before the next."""
    counts, left = [], gpus
    for node in cluster.nodes.values():
        if left <= 0:
            break
        if node.gpus:
            counts.append((node.id, min(node.gpus, left)))
            left -= node.gpus
    return Grant.of(counts)


def alone_s(
    behaviour: Behaviour, grant: Grant, gpu_type: str, batch_at: Callable[[float], Batch | None]
) -> float:
    """Seconds of the whole job with this grant; ``batch_at`` chooses the batch after so much work."""
    done, seconds = 0.0, 0.0
    while done < behaviour.total_work * (1.0 - 1e-12):
        pace = behaviour.pace(grant, gpu_type, batch_at(done), done)
        if pace.rate <= 0.0:
            return float("inf")
        seconds += (pace.until_work - done) / pace.rate
        done = pace.until_work
    return seconds
