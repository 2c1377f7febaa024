"""Chooses nodes for one job, by the spread its policy asked for."""

from __future__ import annotations

from collections.abc import Callable

from elastane.cluster import Grant
from elastane.policies.lowering.room import Room
from elastane.policies.plan import Spread, Want
from elastane.policies.view import Request

Counts = list[tuple[str, int]]


def place(room: Room, request: Request, want: Want) -> Grant | None:
    """Returns a grant that satisfies the want in the room there is, or None; it never mixes accelerator types."""
    limits = [limit for limit in (want.max_nodes, request.max_nodes) if limit is not None]
    most_nodes = min(limits, default=None)
    for group in _node_groups(room, request, want):
        grant = _place_in(room, group, request, want, most_nodes)
        if grant is None or (most_nodes is not None and len(grant.slices) > most_nodes):
            continue
        if not want.servers or room.holds(grant, request):
            return grant
    return None


def _node_groups(room: Room, request: Request, want: Want) -> list[list[str]]:
    """Groups nodes by allowed accelerator type, the types with most free GPUs first."""
    groups: dict[str, list[str]] = {}
    for node_id, node in room.nodes.items():
        kind = node.gpu_type
        if want.gpu_type not in (None, kind) or (request.types and kind not in request.types):
            continue
        if not node.draining:
            groups.setdefault(kind, []).append(node_id)
    if len(groups) <= 1:
        return list(groups.values())

    def free(kind: str) -> int:
        return sum(room.free_gpus[node] for node in groups[kind])

    return [groups[kind] for kind in sorted(groups, key=lambda kind: (-free(kind), kind))]


def _place_in(
    room: Room, group: list[str], request: Request, want: Want, most_nodes: int | None
) -> Grant | None:
    if want.spread is Spread.BALANCED:
        return _balanced(room, group, request, want)
    free = [(node, fit) for node in group if (fit := room.workers_fit(node, request)) > 0]
    if sum(fit for _, fit in free) < want.workers:
        return None
    counts = _SPREADS[want.spread](free, want.workers)
    if most_nodes is not None and len(counts) > most_nodes:
        counts = _best_fit(free, want.workers)  # the owner's limit matters more than the leftovers
    if want.spread is Spread.CONSOLIDATED and len(counts) > _fewest(room, group, request, want.workers):
        return None
    return Grant.of(counts, _place_servers(counts, want.servers)) if want.servers else Grant.of(counts)


def _fewest(room: Room, group: list[str], request: Request, workers: int) -> int:
    """Returns the smallest number of these nodes that would hold the workers if all were empty."""
    number = 0
    for fit in sorted((room.workers_ever(node, request) for node in group), reverse=True):
        if workers <= 0:
            break
        number += 1
        workers -= fit
    return number


def _place_servers(counts: Counts, servers: int) -> Counts:
    """Places servers round-robin over the nodes that have workers."""
    return [(counts[i % len(counts)][0], 1) for i in range(servers)]


def _take_in_order(free: Counts, workers: int) -> Counts:
    counts: Counts = []
    for node, fit in free:
        if workers <= 0:
            break
        counts.append((node, min(fit, workers)))
        workers -= fit
    return counts


def _emptiest(free: Counts, workers: int) -> Counts:
    return _take_in_order(sorted(free, key=lambda item: -item[1]), workers)


def _best_fit(free: Counts, workers: int) -> Counts:
    """Fills the roomiest nodes first; what is left goes to the node that holds it with least to spare."""
    ordered = sorted(free, key=lambda item: -item[1])
    counts: Counts = []
    while workers > 0:
        holders = [item for item in ordered if item[1] >= workers]
        chosen = min(holders, key=lambda item: item[1]) if holders else ordered[0]
        ordered.remove(chosen)
        counts.append((chosen[0], min(chosen[1], workers)))
        workers -= chosen[1]
    return counts


def _fragments(free: Counts, workers: int) -> Counts:
    return _take_in_order(sorted(free, key=lambda item: item[1]), workers)


def _balanced(room: Room, group: list[str], request: Request, want: Want) -> Grant | None:
    """Applies Optimus's theorem: the fewest nodes that hold workers and servers evenly, emptiest nodes first."""
    ordered = sorted(group, key=lambda node: -room.workers_fit(node, request))
    for k in range(1, min(len(ordered), want.workers) + 1):
        shares = [
            (node, _even(want.workers, k, i), _even(want.servers, k, i)) for i, node in enumerate(ordered[:k])
        ]
        if all(room.fits(node, request, w, p) for node, w, p in shares):
            return Grant.of(((n, w) for n, w, _ in shares), ((n, p) for n, _, p in shares))
    return None


def _even(total: int, parts: int, index: int) -> int:
    """Returns the index-th of ``parts`` whole shares of ``total``, which differ by at most one."""
    return total // parts + (1 if index < total % parts else 0)


_SPREADS: dict[Spread, Callable[[Counts, int], Counts]] = {
    Spread.EMPTIEST: _emptiest,
    Spread.BEST_FIT: _best_fit,
    Spread.CONSOLIDATED: _best_fit,
    Spread.FRAGMENTS: _fragments,
}
