"""Decides which pilots there shall be: a pure function of what Ray has, which pilots exist, and what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elastane.engines.ray.messages import PoolWish, Wish

PREFIX = "elastane-pilot-"
"""How names of our actors begin; a pool's go on with its name and a number, others with the id of their node."""
_TELLING = 6
"""How many characters at the end of Ray's ids tell nodes of one host name apart."""
NODE_LABEL, POOL_LABEL = "elastane.io/node", "elastane.io/pool"


@dataclass(frozen=True, slots=True)
class Seen:
    """A node that Ray says is alive."""

    id: str
    host: str
    address: str
    cpus: float = 0.0
    gpus: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name under which it joins if no other node has it: that of our label, else that of its host."""
        return self.labels.get(NODE_LABEL) or self.host.partition(".")[0]


@dataclass(frozen=True, slots=True)
class There:
    """A pilot that exists; ``node`` is the id of its node, empty while it waits for one.

    ``called`` is the name under which its node has joined, as far as that was told.
    """

    name: str
    node: str = ""
    called: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """Start a pilot: on a certain node, or wherever its pool's resources are."""

    name: str
    node: Seen | None = None
    wish: PoolWish | None = None
    pool: str = ""


@dataclass(frozen=True, slots=True)
class Moves:
    """What to do: pilots to start, and names of pilots to end."""

    start: tuple[Start, ...]
    end: tuple[str, ...]


def pool_of(pilot: str) -> str:
    """Returns the pool of a pilot, by its name; empty for one that holds a certain node."""
    middle = pilot.removeprefix(PREFIX)
    return middle.rpartition("/")[0]


def seen(node: Mapping[str, Any]) -> Seen:
    """Returns a node as we see it, from what Ray says of it."""
    resources = node.get("Resources") or {}
    return Seen(
        str(node["NodeID"]),
        str(node.get("NodeManagerHostname") or node.get("NodeName") or node["NodeID"]),
        str(node.get("NodeManagerAddress", "")),
        float(resources.get("CPU", 0.0)),
        float(resources.get("GPU", 0.0)),
        {str(name): str(value) for name, value in (node.get("Labels") or {}).items()},
    )


def unlike_others(node: Seen, nodes: Iterable[Seen]) -> str:
    """Returns the name of a node, with the end of Ray's id of it where others are called the same.

    Ray takes several nodes of one host name (even on one machine), our hub does not.
    """
    alone = all(other.id == node.id or other.name != node.name for other in nodes)
    return node.name if alone else f"{node.name}-{node.id[-_TELLING:]}"


def moves(nodes: Iterable[Seen], pilots: Iterable[There], wish: Wish) -> Moves:
    """What is to be done so that there are the pilots that are wished for, and no others."""
    there = {pilot.name: pilot for pilot in pilots}
    by_id = {node.id: node for node in nodes}
    start: list[Start] = []
    end: set[str] = set()
    for pool in sorted({*wish.pools, *filter(None, map(pool_of, there))}):
        own = [pilot for pilot in there.values() if pool_of(pilot.name) == pool]
        wants = wish.pools.get(pool, PoolWish(0))
        start += [Start(name, None, wants, pool) for name in _fresh(pool, own, wants.count - len(own))]
        end |= _dismissed(own, by_id, wish.keep, len(own) - wants.count)
    held = {pilot.node for pilot in there.values() if pool_of(pilot.name) and pilot.name not in end}
    wanted = {PREFIX + node.id: node for node in by_id.values() if _ours(node, wish) and node.id not in held}
    start += [Start(name, node) for name, node in sorted(wanted.items()) if name not in there]
    end |= {name for name in there if not pool_of(name) and name not in wanted}
    return Moves(tuple(start), tuple(sorted(end)))


def _ours(node: Seen, wish: Wish) -> bool:
    """Whether a pilot shall hold this very node; one without CPUs, such as a head, runs nothing."""
    if wish.none or node.cpus < 1.0 or POOL_LABEL in node.labels:
        return False
    return wish.every_node or NODE_LABEL in node.labels


def _fresh(pool: str, own: Iterable[There], count: int) -> list[str]:
    taken = {pilot.name for pilot in own}
    names: list[str] = []
    number = 0
    while len(names) < count:
        name = f"{PREFIX}{pool}/{number}"
        if name not in taken:
            names.append(name)
        number += 1
    return names


def _dismissed(own: list[There], nodes: Mapping[str, Seen], keep: Iterable[str], count: int) -> set[str]:
    """The pilots of a pool that shrinks: first those that wait for a node, never one whose node is to be kept."""
    kept = set(keep)
    free = [
        pilot
        for pilot in own
        if pilot.node not in nodes or (pilot.called or nodes[pilot.node].name) not in kept
    ]
    first = sorted(free, key=lambda pilot: (bool(pilot.node), pilot.name))
    return {pilot.name for pilot in first[: max(0, count)]}
