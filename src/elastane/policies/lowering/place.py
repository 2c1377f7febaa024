"""Choosing nodes for one job, by the spread its policy asked for."""

from __future__ import annotations

from collections.abc import Callable

from elastane.cluster import Grant
from elastane.policies.lowering.room import Room
from elastane.policies.plan import Spread, Want
from elastane.policies.view import Request

Counts = list[tuple[str, int]]


def place(room: Room, request: Request, want: Want) -> Grant | None:
    """A grant that satisfies the want in the room there is, or None.  Never mixes accelerator types."""
    for group in _node_groups(room, request, want):
        grant = _place_in(room, group, request, want)
        limit = want.max_nodes if want.max_nodes is not None else request.max_nodes
        if grant is not None and (limit is None or len(grant.slices) <= limit):
            return grant
    return None


def _node_groups(room: Room, request: Request, want: Want) -> list[list[str]]:
    """Nodes by accelerator type, the types with most room first, only types that are allowed."""
    groups: dict[str, list[str]] = {}
    for node_id, node in room.nodes.items():
        kind = node.gpu_type
        if want.gpu_type not in (None, kind) or (request.types and kind not in request.types):
            continue
        groups.setdefault(kind, []).append(node_id)
    if len(groups) <= 1:
        return list(groups.values())

    def free(kind: str) -> int:
        return sum(room.free_gpus[node] for node in groups[kind])

    return [groups[kind] for kind in sorted(groups, key=lambda kind: (-free(kind), kind))]


def _place_in(room: Room, group: list[str], request: Request, want: Want) -> Grant | None:
    if want.spread is Spread.BALANCED:
        return _balanced(room, group, request, want)
    free = [(node, fit) for node in group if (fit := room.workers_fit(node, request)) > 0]
    if sum(fit for _, fit in free) < want.workers:
        return None
    widest = max((_node_limit(room, node, request) for node in group), default=1)
    counts = _SPREADS[want.spread](free, want.workers, widest)
    if counts is None:
        return None
    return Grant.of(counts, _place_servers(counts, want.servers)) if want.servers else Grant.of(counts)


def _node_limit(room: Room, node: str, request: Request) -> int:
    return max(1, int(room.nodes[node].gpus / request.worker.gpus)) if request.worker.gpus else 1


def _place_servers(counts: Counts, servers: int) -> Counts:
    """Servers round-robin over the nodes that have workers."""
    return [(counts[i % len(counts)][0], 1) for i in range(servers)]


def _take_in_order(free: Counts, workers: int) -> Counts:
    counts: Counts = []
    for node, fit in free:
        if workers <= 0:
            break
        counts.append((node, min(fit, workers)))
        workers -= fit
    return counts


def _emptiest(free: Counts, workers: int, _widest: int) -> Counts | None:
    return _take_in_order(sorted(free, key=lambda item: -item[1]), workers)


def _best_fit(free: Counts, workers: int, _widest: int) -> Counts | None:
    """Whole large gaps first; what is left goes to the tightest node that holds it."""
    ordered = sorted(free, key=lambda item: -item[1])
    counts: Counts = []
    while workers > 0:
        holders = [item for item in ordered if item[1] >= workers]
        chosen = min(holders, key=lambda item: item[1]) if holders else ordered[0]
        ordered.remove(chosen)
        counts.append((chosen[0], min(chosen[1], workers)))
        workers -= chosen[1]
    return counts


def _consolidated(free: Counts, workers: int, widest: int) -> Counts | None:
    counts = _best_fit(free, workers, widest)
    fewest = -(-workers // widest)
    return counts if counts is not None and len(counts) <= fewest else None


def _fragments(free: Counts, workers: int, _widest: int) -> Counts | None:
    return _take_in_order(sorted(free, key=lambda item: item[1]), workers)


def _balanced(room: Room, group: list[str], request: Request, want: Want) -> Grant | None:
    """Optimus's theorem: the fewest nodes that hold workers and servers evenly, emptiest nodes first."""
    ordered = sorted(group, key=lambda node: -room.workers_fit(node, request))
    for k in range(1, min(len(ordered), want.workers) + 1):
        shares = [
            (node, _even(want.workers, k, i), _even(want.servers, k, i)) for i, node in enumerate(ordered[:k])
        ]
        if all(room.fits(node, request, w, p) for node, w, p in shares):
            return Grant.of(((n, w) for n, w, _ in shares), ((n, p) for n, _, p in shares))
    return None


def _even(total: int, parts: int, index: int) -> int:
    """The index-th of ``parts`` shares of ``total`` that differ by at most one."""
    return total // parts + (1 if index < total % parts else 0)


_SPREADS: dict[Spread, Callable[[Counts, int, int], Counts | None]] = {
    Spread.EMPTIEST: _emptiest,
    Spread.BEST_FIT: _best_fit,
    Spread.CONSOLIDATED: _consolidated,
    Spread.FRAGMENTS: _fragments,
}
