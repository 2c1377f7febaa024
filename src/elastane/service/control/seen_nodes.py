"""Remembers nodes by name, across control planes: which incarnation was there last, and since when one is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elastane.cluster import Node
from elastane.codec import decoded, encoded
from elastane.engines.contract import NodeFacts
from elastane.service.store import Store, Transaction

_SETTING = "nodes"


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node as it was when it was there last; ``gone_s`` is None while it is there."""

    node: Node
    incarnation: str
    gone_s: float | None = None


class SeenNodes:
    """All nodes that were seen and are not forgotten."""

    def __init__(self, store: Store) -> None:
        kept: Mapping[str, Mapping[str, Any]] = store.settings.get(_SETTING) or {}
        self._seen = {
            name: SeenNode(decoded(Node, each["node"]), str(each["incarnation"]), each["gone_s"])
            for name, each in kept.items()
        }

    def gone(self) -> Mapping[str, SeenNode]:
        """Those that are away, by name."""
        return {name: seen for name, seen in self._seen.items() if seen.gone_s is not None}

    def since_s(self, name: str) -> float | None:
        """Since when a node is away, in Unix seconds; None if it is there or was never seen."""
        seen = self._seen.get(name)
        return None if seen is None else seen.gone_s

    def returned(self, there: Mapping[str, Node], facts: Mapping[str, NodeFacts]) -> list[str]:
        """Those that are there as another incarnation than the last time, without having been missed."""
        return [
            name
            for name in there
            if (seen := self._seen.get(name)) is not None
            and seen.gone_s is None
            and seen.incarnation != facts.get(name, _NOTHING).incarnation
        ]

    def after(
        self,
        there: Mapping[str, Node],
        facts: Mapping[str, NodeFacts],
        expected: Mapping[str, Node],
        now_s: float,
        over: Callable[[str, float], bool],
    ) -> dict[str, SeenNode]:
        """What is to be remembered now: who is there, and since when others are gone, unless that is ``over``."""
        found = {name: SeenNode(node, facts.get(name, _NOTHING).incarnation) for name, node in there.items()}
        for name, seen in self._seen.items():
            if name not in there:
                gone_s = now_s if seen.gone_s is None else seen.gone_s
                if name in expected or not over(name, gone_s):
                    found[name] = SeenNode(seen.node, seen.incarnation, gone_s)
        for name, node in expected.items():
            found.setdefault(name, SeenNode(node, "", now_s))
        return found

    def is_new(self, found: Mapping[str, SeenNode]) -> bool:
        """Whether this is another memory than the present one."""
        return found != self._seen

    def remember(self, found: dict[str, SeenNode]) -> None:
        """Hold this from now on; it is stored."""
        self._seen = found


def keep(t: Transaction, found: Mapping[str, SeenNode]) -> None:
    """Write down what is to be remembered of nodes."""
    t.settings.put(
        _SETTING,
        {
            name: {"node": encoded(seen.node), "incarnation": seen.incarnation, "gone_s": seen.gone_s}
            for name, seen in found.items()
        },
    )


_NOTHING = NodeFacts()
