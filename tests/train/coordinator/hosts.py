"""A host for a coordination server in a test: it has orders for everybody and remembers what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from elastane.train.coordinator.script_runner import Order
from elastane.train.coordinator.worker_places import LOCAL
from elastane.train.reports.events import Event


class FakeHost:
    """Places workers as it is told beforehand; all others are on the one local node."""

    def __init__(self, nodes: Mapping[str, str] | None = None) -> None:
        self.nodes = nodes or {}
        self.events: list[dict[str, Any]] = []
        self.placed: list[dict[str, int]] = []
        self.fell_silent: list[str] = []
        self.coming: asyncio.Future[None] | None = None
        self.words = ""

    def event(self, values: Mapping[str, Any]) -> None:
        self.events.append(dict(values))

    def happened(self, event: Event) -> None:
        self.events.append(event.to_json())

    def order(self, worker: str) -> Order | None:
        return Order(worker, "script.py", (), {}, "/dev/null", "/")

    def choose_node(self, worker: str) -> str:
        return self.node_of(worker)

    def node_of(self, worker: str) -> str:
        return self.nodes.get(worker, LOCAL)

    def place(self, places: Mapping[str, int]) -> None:
        self.placed.append(dict(places))

    def silent(self, node: str) -> None:
        self.fell_silent.append(node)

    def log_comes(self, worker: str) -> Awaitable[object] | None:
        return self.coming

    def last_words(self, worker: str) -> str:
        return self.words
