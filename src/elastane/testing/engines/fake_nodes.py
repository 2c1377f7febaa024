"""Machines that are only pretended: which there are, what is said of them, and pools that they come from.

Nothing here knows of work; that nobody takes away a node on which somebody works is the engine's to see to.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from elastane.cluster import Node
from elastane.engines.contract import NodeFacts, Pool


@dataclass(slots=True)
class FakePool:
    """A pool whose nodes come ``delay_s`` after they were asked for, as long as there is ``stock``."""

    node: Node
    least: int = 0
    most: int = 0
    price_per_hour: float = 0.0
    delay_s: float = 10.0
    stock: int = 1_000_000
    """How many its provider can really give."""
    wanted: int = 0
    coming_s: list[float] = field(default_factory=list)
    """When each of those will be there that have been asked for."""
    names: Iterable[int] = field(default_factory=itertools.count)


class FakeNodes:
    """Nodes by name: known, there now, and what there is to say of each."""

    def __init__(self, nodes: Iterable[Node], pools: Mapping[str, FakePool] | None = None) -> None:
        self.known = {node.id: node for node in nodes}
        self.there = dict(self.known)
        self.facts = {name: NodeFacts(f"{name}.0") for name in self.known}
        self._returns: Counter[str] = Counter()
        self._pools = dict(pools or {})

    def add(self, node: Node, **facts: Any) -> None:
        """A node joins that was never seen before, or that was forgotten."""
        self.known[node.id] = self.there[node.id] = node
        self._returns[node.id] += 1
        self.facts[node.id] = NodeFacts(f"{node.id}.{self._returns[node.id]}", **facts)

    def remove(self, name: str) -> None:
        """A node is gone for good: nobody expects it back."""
        self.there.pop(name, None)
        self.known.pop(name, None)
        self.facts.pop(name, None)

    def lose(self, name: str) -> bool:
        """A node falls silent; False if it had already."""
        return self.there.pop(name, None) is not None

    def come_back(self, name: str) -> bool:
        """A known node answers again, as another incarnation; False if it never was away."""
        if name in self.there or name not in self.known:
            return False
        # In the order there was, so that nothing depends on who was away.
        self.there = {i: n for i, n in self.known.items() if i in self.there or i == name}
        self._returns[name] += 1
        self.say(name, incarnation=f"{name}.{self._returns[name]}")
        return True

    def say(self, name: str, **facts: Any) -> None:
        """Something about a node is another thing from now on."""
        self.facts[name] = replace(self.facts[name], **facts)

    # Pools.

    def of_pool(self, pool: str) -> list[str]:
        """Nodes that came from a pool and are there."""
        return [name for name in self.there if self.facts[name].pool == pool]

    def pools(self) -> dict[str, Pool]:
        """What the contract says of pools."""
        return {
            name: Pool(pool.node, len(self.of_pool(name)), pool.least, pool.most, pool.price_per_hour)
            for name, pool in self._pools.items()
        }

    def want(
        self, name: str, count: int, keep: Collection[str], now_s: float, busy: Callable[[str], bool]
    ) -> list[str]:
        """Ask for more nodes of a pool, or take some away; who is gone now."""
        pool = self._pools[name]
        pool.wanted = count
        there = self.of_pool(name)
        missing = min(count, pool.stock) - len(there)
        pool.coming_s = pool.coming_s[: max(0, missing)]
        pool.coming_s += [now_s + pool.delay_s] * (missing - len(pool.coming_s))
        going = [node for node in there if node not in keep][: max(0, len(there) - count)]
        for node in going:
            if busy(node):
                raise AssertionError(f"{node} is given back with workers on it")
            self.remove(node)
        return going

    def next_s(self) -> float | None:
        """When the next node of a pool will be there; None if none was asked for."""
        return min((at_s for pool in self._pools.values() for at_s in pool.coming_s), default=None)

    def arrive(self, now_s: float) -> bool:
        """Let those join whose time has come; whether there were any."""
        joined = False
        for name, pool in self._pools.items():
            due = [at_s for at_s in pool.coming_s if at_s <= now_s]
            pool.coming_s = [at_s for at_s in pool.coming_s if at_s > now_s]
            for _ in due:
                number = next(iter(pool.names))
                self.add(replace(pool.node, id=f"{name}-{number}"), pool=name)
                joined = True
        return joined
