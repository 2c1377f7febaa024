"""The nodes of a live cluster: which there are, which answer, and which take nothing new."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from elastane.cluster import Node
from elastane.engines.contract import Engine, NodeFacts
from elastane.service.control.core_sharing import CPU, Machines
from elastane.service.control.seen_nodes import SeenNodes, keep
from elastane.service.store import Store

State = Literal["up", "suspect", "draining", "leaving", "unfit", "lost"]
_NOTHING = NodeFacts()
_SOONER_S = 1.0
"""By how much a node must be leaving sooner than it said for that to be news."""
FORGET_AFTER_S = 3600.0
"""How long a node is shown as lost that nobody declared."""
LEFT_S = 120.0
"""The same for one that said farewell: longer than a restart of its unit, so that jobs wait for it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a node stands; ``moment_s`` is since when it is lost, or when it is taken away."""

    state: State
    moment_s: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What a look at the nodes has found; from ``restarted`` ones everything is gone that ran there."""

    changed: bool
    restarted: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return self.changed


class ClusterState:
    """Nodes as the engine knows them, with what people have decided about them."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        clock: Callable[[], float] = time.time,
        forget_after_s: float = FORGET_AFTER_S,
        saving_here: Callable[[], bool] = lambda: False,
    ) -> None:
        """``saving_here`` says whether there are jobs that save where only nodes that see the head's disk can read."""
        self._engine, self._store, self._clock = engine, store, clock
        self._forget_after_s, self._saving_here = forget_after_s, saving_here
        self._draining: frozenset[str] = frozenset(store.settings.get("draining") or ())
        self._retiring: frozenset[str] = frozenset()
        self._seen = SeenNodes(store)
        self._answering: Mapping[str, Node] = {}
        self._standing: Mapping[str, Standing] = {}
        self._facts: Mapping[str, NodeFacts] = {}
        self._types: tuple[str, ...] = ()
        self._machines: Machines | None = None

    @property
    def draining(self) -> frozenset[str]:
        """Names of nodes that run empty because somebody said so."""
        return self._draining

    @property
    def retiring(self) -> frozenset[str]:
        """Names of nodes that run empty because their pool shall have fewer."""
        return self._retiring

    @property
    def answering(self) -> Mapping[str, Node]:
        """Nodes that answered when it was last looked (``look``): what happens in between means nothing to a round."""
        return self._answering

    def expected(self) -> Collection[str]:
        """Nodes that there are or should be, and pools that may give more: while one is missing, no job is refused.

        A node that answers and is unfit is not expected to become fit, unless it only waits for jobs to end.
        """
        growing = (name for name, pool in self._engine.pools().items() if pool.now < pool.most)
        unfit = {name for name in self._answering if self._facts.get(name, _NOTHING).unfit}
        return {*(self.known().keys() - unfit), *(f"more of pool {name}" for name in growing)}

    def known(self) -> Mapping[str, Node]:
        """All nodes there should be, whether they answer or not; who is gone for long is forgotten."""
        nodes = dict(self._engine.known_nodes())
        for name, seen in self._seen.gone().items():
            if seen.gone_s is not None and self._is_over(name, seen.gone_s):
                nodes.pop(name, None)
            elif name not in nodes:
                nodes[name] = seen.node
        return nodes

    def facts(self, name: str) -> NodeFacts:
        """What the engine says of a node now."""
        return self._engine.node_facts().get(name, _NOTHING)

    def pool_of(self, name: str) -> str:
        """The pool that a node came from, as of the last look; empty for none."""
        return self._facts.get(name, _NOTHING).pool

    def standing(self, name: str) -> Standing:
        """How a node stands now."""
        facts = self.facts(name)
        if name not in self._engine.nodes() and not facts.unfit:
            return Standing("lost", self._seen.since_s(name))
        return self._judge(name, facts)

    def usable(self, held: Callable[[], Mapping[str, int]] = dict) -> dict[str, Node]:
        """Those that answer now, as a policy may use them; ``held`` are the slots of each in use.

        Those that run empty are marked.  A suspect one is as large as what is used of it, and none is there that is
        unfit or suspect and empty.
        """
        there = self._engine.nodes()
        special = {name: how for name in there if (how := self.standing_of(name)).state != "up"}
        if not special:
            return dict(there)
        used = held() if any(how.state in ("suspect", "unfit") for how in special.values()) else {}
        found = {}
        for name, node in there.items():
            how = special.get(name, _UP)
            if how.state == "up":
                found[name] = node
            elif how.state in ("draining", "leaving") or (how.state == "unfit" and used.get(name)):
                found[name] = replace(node, draining=True)
            elif how.state == "suspect" and used.get(name):
                found[name] = replace(node, gpus=min(node.gpus, used[name]))
        return found

    def standing_of(self, name: str) -> Standing:
        """How a node stood at the last look; nodes that joined since then stand well."""
        return self._standing.get(name, _UP)

    def takes_new(self, name: str) -> bool:
        """Whether somebody may be placed there who was not there before, as of the last look."""
        return name in self._answering and self.standing_of(name).state not in ("suspect", "unfit")

    def silent(self) -> frozenset[str]:
        """Nodes from which nothing is taken away, nor anything new placed there, as of the last look."""
        return frozenset(name for name, how in self._standing.items() if how.state == "suspect")

    def leaving(self) -> Mapping[str, float]:
        """When nodes will be taken away, by name, as of the last look."""
        return {
            name: how.moment_s
            for name, how in self._standing.items()
            if how.state == "leaving" and how.moment_s is not None
        }

    def accelerator(self) -> str:
        """The accelerator type of all nodes, or the first of several; slots of a machine without are ``cpu``."""
        return self.types()[0]

    def types(self) -> tuple[str, ...]:
        """All accelerator types of known nodes, in the order in which they came; ``cpu`` if there are no nodes."""
        return self._types or _types_of(self.known())

    def type_of(self, nodes: Iterable[str]) -> str | None:
        """The one accelerator type of these nodes, as of the last look; None if they are of several, or unknown."""
        if len(self.types()) == 1:
            return self.accelerator()
        kinds = {self._answering[node].gpu_type for node in nodes if node in self._answering}
        return kinds.pop() if len(kinds) == 1 else None

    def machines(self) -> Machines:
        """Which of the known nodes share cores."""
        if self._machines is None:
            self._machines = Machines.found(self.known(), self._engine.node_facts())
        return self._machines

    def gpu_noun(self) -> str:
        """What people call that which policies divide: slots where there is nothing but CPUs."""
        return "GPU" if any(kind != CPU for kind in self.types()) else "slot"

    def drain(self, draining: frozenset[str]) -> None:
        """From now on exactly these nodes run empty; whoever decides so has stored it."""
        self._draining = draining
        self._standing = self._stand(self._engine.nodes(), self._facts)

    def retire(self, retiring: frozenset[str]) -> None:
        """From now on exactly these run empty because they are to be given back."""
        if retiring != self._retiring:
            self._retiring = retiring
            self._standing = self._stand(self._engine.nodes(), self._facts)

    def look(self) -> NodeChanges:
        """See how nodes stand; what is new about that is then in the event log."""
        nodes, facts, before = dict(self._engine.nodes()), dict(self._engine.node_facts()), self._answering
        restarted = frozenset(self._seen.returned(nodes, facts))
        seen = self._seen.after(nodes, facts, self._engine.known_nodes(), self._clock(), self._is_over)
        standing = self._stand(nodes, facts)
        new = self._seen.is_new(seen)
        changed = nodes.keys() != before.keys() or bool(restarted) or standing != self._standing
        if new or changed:
            with self._store.transaction() as t:
                for body in _events(nodes, before, restarted, standing, self._standing):
                    t.log.append_event("node", None, body)
                if new:
                    keep(t, seen)
        self._seen.remember(seen)
        self._answering, self._facts, self._standing = nodes, facts, standing
        if new or changed or not self._types:
            self._types, self._machines = _types_of(self.known()), None
        return NodeChanges(changed, restarted)

    def _stand(self, nodes: Mapping[str, Node], facts: Mapping[str, NodeFacts]) -> dict[str, Standing]:
        """How those stand that are there but not simply up."""
        found = {name: self._judge(name, facts.get(name, _NOTHING)) for name in nodes}
        return {name: how for name, how in found.items() if how.state != "up"}

    def _judge(self, name: str, facts: NodeFacts) -> Standing:
        """How a node stands that is there."""
        if facts.unfit:
            return Standing("unfit", None, facts.unfit)
        if facts.blind and self._saving_here():
            return Standing("unfit", None, _BLIND)
        if facts.suspect:
            return Standing("suspect")
        if facts.leaving_s is not None:
            return Standing("leaving", self._gone_by_s(name, facts.leaving_s))
        return Standing("draining") if name in self._draining or name in self._retiring else _UP

    def _gone_by_s(self, name: str, leaving_s: float) -> float:
        """When a node will be taken away: counted from when it was first said, unless it is sooner by now."""
        stood, said_s = self._standing.get(name, _UP), self._clock() + leaving_s
        if stood.state != "leaving" or stood.moment_s is None:
            return said_s
        return said_s if said_s < stood.moment_s - _SOONER_S else stood.moment_s

    def _is_over(self, name: str, gone_s: float) -> bool:
        """Whether a node is gone for so long that nobody wants to see it any more."""
        if name in self._draining or self.facts(name).declared:
            return False
        has_left = name not in self._engine.known_nodes()
        return self._clock() - gone_s > (
            min(LEFT_S, self._forget_after_s) if has_left else self._forget_after_s
        )


_UP = Standing("up")
_BLIND = (
    "it does not see the folders in which present jobs save; it is used once they have ended, "
    "and for jobs with a place that all nodes reach ('elastane up --checkpoints URL')"
)


def _types_of(nodes: Mapping[str, Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.gpu_type for node in nodes.values())) or (CPU,)


def _events(
    nodes: Mapping[str, Node],
    before: Mapping[str, Node],
    restarted: frozenset[str],
    standing: Mapping[str, Standing],
    stood: Mapping[str, Standing],
) -> list[dict[str, Any]]:
    """What the event log says of a look: who is gone, who has come, who stands otherwise."""
    found: list[dict[str, Any]] = [
        {"node": name, "state": "lost"} for name in sorted((before.keys() - nodes.keys()) | restarted)
    ]
    found += [{"node": name, "state": "up"} for name in sorted((nodes.keys() - before.keys()) | restarted)]
    for name in sorted(standing.keys() | (stood.keys() & nodes.keys() & before.keys())):
        now, then = standing.get(name, _UP), stood.get(name, _UP)
        if now != then and not {now.state, then.state} <= {"up", "draining"}:  # whoever drains says so
            body: dict[str, Any] = {"node": name, "state": now.state}
            body |= {"at_s": now.moment_s} if now.moment_s is not None else {}
            found.append(body | ({"why": now.why} if now.why else {}))
    return found
