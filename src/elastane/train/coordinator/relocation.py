"""Translates paths of the head into paths of the node on which an order is carried out.

A supervisor writes orders in its own machine's paths.  A node that has folders of its own tells its fork servers which
folders stand for which (``RELOCATE``), and that the coordinator is reached through a tunnel (``THERE``): the longest
prefix that fits is replaced.  Without these variables an order stays as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from elastane.train.coordinator.script_runner import Order

RELOCATE = "ELASTANE_RELOCATE"
"""Set for a fork server on another machine: pairs of folders, the head's and the node's, as JSON."""
THERE = "ELASTANE_COORDINATOR_PORTS"
"""Set where the coordinator is reached through a tunnel: the port that is called here, ``:``, and its own."""
PATHS = ("ELASTANE_RUN", "ELASTANE_CHECKPOINTS")
"""Variables that are paths of ours, where they are paths."""
_MODULES = "PYTHONPATH"
"""Folders of modules; those that were packed with the job are elsewhere on a node."""
_ENDPOINT = "ELASTANE_COORDINATOR"
_PROGRAM_WORDS = 2
"""Of a program, those words that may be a path of ours: itself and, for an interpreter, its script."""


def port_there(environment: Mapping[str, str], port: int) -> int:
    """The port at which the coordinator listens itself when ``port`` is called; both are equal without a tunnel.

    >>> port_there({THERE: "4000:5000"}, 4000), port_there({THERE: "4000:5000"}, 4001), port_there({}, 4000)
    (5000, 4001, 4000)
    """
    here, _, there = environment.get(THERE, "").partition(":")
    return int(there) if here == str(port) and there.isdigit() else port


def told(pairs: Iterable[tuple[str, str]]) -> str:
    """The value of ``RELOCATE`` for these pairs."""
    return json.dumps(list(pairs))


@dataclass(frozen=True, slots=True)
class Relocation:
    """What stands for what on this node; ``endpoint`` is where the coordinator is reached from here, if not as told.

    >>> here = Relocation((("/head", "/a"), ("/head/run", "/b")))
    >>> here.path("/head/run/logs"), here.path("/head/running"), here.path("/other")
    ('/b/logs', '/a/running', '/other')
    """

    pairs: tuple[tuple[str, str], ...] = ()
    endpoint: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Relocation:
        """As the environment of a fork server says."""
        pairs = tuple((str(head), str(node)) for head, node in json.loads(environment.get(RELOCATE, "[]")))
        return cls(pairs, environment[_ENDPOINT] if THERE in environment else "")

    def path(self, text: str) -> str:
        """The node's path for one of the head's; any other text stays as it is."""
        for head, node in sorted(self.pairs, key=lambda pair: -len(pair[0])):
            if text == head or text.startswith(head.rstrip("/") + "/"):
                return node.rstrip("/") + text[len(head.rstrip("/")) :]
        return text

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Variables in which what is ours names places of this node."""
        ours = {name: self.path(variables[name]) for name in PATHS if name in variables}
        if _MODULES in variables:
            ours[_MODULES] = os.pathsep.join(map(self.path, variables[_MODULES].split(os.pathsep)))
        if self.endpoint and _ENDPOINT in variables:
            ours[_ENDPOINT] = self.endpoint
        return {**variables, **ours}

    def order(self, order: Order) -> Order:
        """The same order in the paths of this node."""
        if not self.pairs and not self.endpoint:
            return order
        return replace(
            order,
            log=self.path(order.log),
            directory=self.path(order.directory),
            script=order.script if order.module else self.path(order.script),
            arguments=self._first(order.arguments, 1),
            program=self._first(order.program, _PROGRAM_WORDS),
            environment=self.environment(order.environment),
        )

    def _first(self, words: tuple[str, ...], count: int) -> tuple[str, ...]:
        return (*map(self.path, words[:count]), *words[count:])
