"""The nodes of a live cluster: which there are, which answer, and which take nothing new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from elastane.cluster import Node
from elastane.engines.contract import Engine
from elastane.service.store import Store


class ClusterState:
    """Nodes as the engine knows them, with what people have decided about them."""

    def __init__(self, engine: Engine, store: Store) -> None:
        self._engine, self._store = engine, store
        self._draining: frozenset[str] = frozenset(store.setting("draining") or ())
        self._answering: Mapping[str, Node] = {}

    @property
    def draining(self) -> frozenset[str]:
        """Names of nodes that run empty."""
        return self._draining

    @property
    def answering(self) -> Mapping[str, Node]:
        """Nodes that answered when it was last looked (``look``): what happens in between means nothing to a round."""
        return self._answering

    def known(self) -> Mapping[str, Node]:
        """All nodes there should be, whether they answer or not."""
        return self._engine.known_nodes()

    def usable(self) -> dict[str, Node]:
        """Those that answer now; draining ones are marked."""
        nodes = self._engine.nodes().items()
        return {name: replace(node, draining=name in self._draining) for name, node in nodes}

    def accelerator(self) -> str:
        """The accelerator type of all nodes; slots of a machine without accelerators are of type ``cpu``."""
        return next((node.gpu_type for node in self.known().values()), "cpu")

    def drain(self, draining: frozenset[str]) -> None:
        """From now on exactly these nodes run empty; whoever decides so has stored it."""
        self._draining = draining

    def look(self) -> bool:
        """See which nodes answer; whether that is another set than before, which is then in the event log."""
        nodes, before = self._engine.nodes(), self._answering.keys()
        changed = nodes.keys() != before
        if changed:
            with self._store.transaction() as t:
                for name in sorted(nodes.keys() - before):
                    t.append_event("node", None, {"node": name, "state": "up"})
                for name in sorted(before - nodes.keys()):
                    t.append_event("node", None, {"node": name, "state": "lost"})
        self._answering = dict(nodes)
        return changed
