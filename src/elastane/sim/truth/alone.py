"""Computes how long a job takes alone on given GPUs, from start to end, by its ground truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from elastane.cluster import Batch, Cluster, Grant
from elastane.simcore.behaviour import Behaviour


def reference_type(cluster: Cluster) -> str:
    """Returns the accelerator type that trace durations and fair shares refer to: the most numerous one."""
    totals: Counter[str] = Counter()
    for node in cluster.nodes.values():
        totals[node.gpu_type] += node.gpus
    return max(sorted(totals), key=lambda kind: totals[kind])


def packed_grant(cluster: Cluster, gpus: int) -> Grant:
    """Grants that many GPUs of the reference type (or all there are), filling one node after another, large first."""
    kind = reference_type(cluster)
    nodes = [node for node in cluster.nodes.values() if node.gpu_type == kind and node.gpus]
    counts, left = [], gpus
    for node in sorted(nodes, key=lambda node: (-node.gpus, node.id)):
        if left <= 0:
            break
        counts.append((node.id, min(node.gpus, left)))
        left -= node.gpus
    return Grant.of(counts)


def alone_s(
    behaviour: Behaviour, grant: Grant, gpu_type: str, batch_at: Callable[[float], Batch | None]
) -> float:
    """Returns the seconds of the whole job with this grant; ``batch_at`` chooses the batch after so much work."""
    done, seconds = 0.0, 0.0
    while done < behaviour.total_work * (1.0 - 1e-12):
        pace = behaviour.pace(grant, gpu_type, batch_at(done), done)
        if pace.rate <= 0.0:
            return float("inf")
        seconds += (pace.until_work - done) / pace.rate
        done = pace.until_work
    return seconds
