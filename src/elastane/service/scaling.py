"""Scaling decides how many nodes each pool has: enough for what waits, less when idle, within bounds and budget.

A pure function of what there is.  It grows at once and shrinks late: a node goes only when it has been idle for a
while, nothing that waits could use it, and it was drained first; a job that comes meanwhile gets it back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from elastane.cluster import Node

IDLE_S = 300.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the owner of a pool has set; ``idle_s`` is how long a node stays that nobody uses."""

    least: int = 0
    most: int = 0
    idle_s: float = IDLE_S
    budget_per_hour: float | None = None

    def ceiling(self, price_per_hour: float) -> int:
        """The most nodes that limit and budget allow."""
        if self.budget_per_hour is None or price_per_hour <= 0.0:
            return self.most
        return min(self.most, math.floor(self.budget_per_hour / price_per_hour + 1e-9))


@dataclass(frozen=True, slots=True)
class PoolNode:
    """A node of a pool that is there; ``idle_s`` is None while it has workers."""

    name: str
    free: int
    idle_s: float | None
    retiring: bool = False


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool as it is: what its nodes look like, which are there, and how many were ``wanted`` last."""

    node: Node
    price_per_hour: float
    bounds: Bounds
    nodes: Sequence[PoolNode] = ()
    wanted: int = 0

    @property
    def ceiling(self) -> int:
        """The most nodes it may have."""
        return self.bounds.ceiling(self.price_per_hour)


@dataclass(frozen=True, slots=True)
class Need:
    """A job that waits for its fewest workers; ``types`` empty means that any accelerator will do."""

    workers: int
    each: float = 1.0
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Size:
    """What a pool shall be: so many nodes, ``keep`` among them; ``retiring`` ones run empty first."""

    count: int
    keep: frozenset[str]
    retiring: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Room:
    """Free slots of one node that is there, on its way (no name), or of no pool."""

    free: float
    pool: str = ""
    name: str = ""
    retiring: bool = False
    used: bool = False


@dataclass(slots=True)
class _Drawn:
    """What one need would take: slots of rooms, and new nodes by pool."""

    rooms: list[tuple[_Room, float]] = field(default_factory=list)
    new: dict[str, list[_Room]] = field(default_factory=dict)
    cost: float = 0.0


def sizes(
    pools: Mapping[str, PoolState], needs: Sequence[Need], others: Mapping[str, Sequence[int]]
) -> dict[str, Size]:
    """The size of each pool; ``others`` are free slots, by accelerator type, of nodes that belong to none."""
    rooms = _rooms(pools, others)
    grown: dict[str, int] = dict.fromkeys(pools, 0)
    for need in needs:
        drawn = [
            _draw(need, kind, pools, rooms[kind], grown)
            for kind in rooms
            if kind in need.types or not need.types
        ]
        found = min((each for each in drawn if each is not None), key=lambda each: each.cost, default=None)
        if found is None:
            continue  # no size of any pool would help it
        for room, slots in found.rooms:
            room.free, room.used = room.free - slots, True
        for pool, new in found.new.items():
            grown[pool] += len(new)
            rooms[pools[pool].node.gpu_type] += new
    used = [room for group in rooms.values() for room in group if room.used]
    return {name: _size(pool, [room for room in used if room.pool == name]) for name, pool in pools.items()}


def _rooms(pools: Mapping[str, PoolState], others: Mapping[str, Sequence[int]]) -> dict[str, list[_Room]]:
    """Free slots by accelerator type, in the order in which they are used up."""
    rooms: dict[str, list[_Room]] = {
        kind: [_Room(float(free)) for free in group] for kind, group in others.items()
    }
    for name, pool in pools.items():
        group = rooms.setdefault(pool.node.gpu_type, [])
        group += [_Room(float(node.free), name, node.name, node.retiring) for node in pool.nodes]
        coming = min(pool.wanted, pool.ceiling) - len(pool.nodes)
        group += [_Room(float(pool.node.gpus), name) for _ in range(coming)]
    for group in rooms.values():
        group.sort(key=lambda room: (room.retiring, not room.name and bool(room.pool)))
    return rooms


def _draw(
    need: Need, kind: str, pools: Mapping[str, PoolState], rooms: Sequence[_Room], grown: Mapping[str, int]
) -> _Drawn | None:
    """What a need would take on one accelerator type; None if there is no way."""
    drawn, left = _Drawn(), need.workers
    for room in rooms:
        left -= _take(drawn, room, need, left)
    alike = [name for name, pool in pools.items() if pool.node.gpu_type == kind]
    for name in sorted(alike, key=lambda name: _price_per_slot(pools[name])):
        pool = pools[name]
        allowed = pool.ceiling - max(pool.wanted, len(pool.nodes)) - grown[name]
        while left > 0 and allowed > 0:
            room = _Room(float(pool.node.gpus), name)
            taken = _take(drawn, room, need, left)
            if not taken:
                break
            drawn.new.setdefault(name, []).append(room)
            drawn.cost += pool.price_per_hour or 1e-6
            left, allowed = left - taken, allowed - 1
    return drawn if left <= 0 else None


def _take(drawn: _Drawn, room: _Room, need: Need, left: int) -> int:
    """Workers that a room takes of a need."""
    each = max(need.each, 1e-9)
    count = min(left, int(room.free / each + 1e-9))
    if count > 0:
        drawn.rooms.append((room, count * each))
    return max(0, count)


def _price_per_slot(pool: PoolState) -> float:
    return pool.price_per_hour / max(1, pool.node.gpus)


def _size(pool: PoolState, used: Sequence[_Room]) -> Size:
    """The size of a pool, given what is used of it by those that wait."""
    ceiling = pool.ceiling
    floor = min(pool.bounds.least, ceiling)
    needed = {room.name for room in used if room.name}
    coming = sum(
        1 for room in used if not room.name
    )  # those on their way and the new ones that somebody waits for
    gone = _given_back(pool, needed, floor)
    stay = [node for node in pool.nodes if node.name not in gone]
    count = max(len(stay), min(len(stay) + coming, ceiling), floor)
    retiring = _retiring(pool, stay, needed, floor, ceiling)
    return Size(count, frozenset(node.name for node in stay), retiring)


def _given_back(pool: PoolState, needed: set[str], floor: int) -> set[str]:
    """Nodes that were drained, are empty and still in nobody's plans: now they may go."""
    over = len(pool.nodes) - pool.ceiling
    ready = [node for node in pool.nodes if node.retiring and node.idle_s is not None]
    ready.sort(key=lambda node: (node.name in needed, -(node.idle_s or 0.0)))
    free_to_go = sum(1 for node in ready if node.name not in needed)
    most = min(max(free_to_go, over), len(ready), len(pool.nodes) - floor)
    return {node.name for node in ready[: max(0, most)]}


def _retiring(
    pool: PoolState, stay: Sequence[PoolNode], needed: set[str], floor: int, ceiling: int
) -> frozenset[str]:
    """Nodes that shall run empty: idle for long enough, or beyond what the pool may have."""
    idle = [node for node in stay if node.idle_s is not None and node.name not in needed]
    long = [node for node in idle if node.retiring or (node.idle_s or 0.0) >= pool.bounds.idle_s]
    over = max(0, len(stay) - ceiling)
    # Beyond the limit those go first that nobody uses, then those with least on them.
    ranked = sorted(
        stay, key=lambda node: (node.name in needed, node.idle_s is None, -node.free, not node.retiring)
    )
    going = [node.name for node in ranked[:over]]
    long.sort(key=lambda node: (not node.retiring, -(node.idle_s or 0.0)))
    going += [node.name for node in long if node.name not in going]
    return frozenset(going[: max(0, len(stay) - floor)])
