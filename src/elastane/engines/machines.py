"""Defines what supplies machines to an engine: whoever gets them from a cloud or a cluster, and gives them back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from elastane.engines.contract import Pool


class Machines(Protocol):
    """A supplier of machines, each of which joins by itself as a node."""

    async def run(self, join: str, changed: Callable[[], None]) -> None:
        """Supply machines until cancelled.

        ``join`` is the string with which they join; ``changed`` is called when any have come or gone.
        """
        ...

    def pools(self) -> Mapping[str, Pool]:
        """Kinds of machines there can be more or fewer of, by name."""
        ...

    def want(self, pool: str, count: int, keep: Collection[str]) -> None:
        """Have so many machines of a pool from now on, ``keep`` among them; returns at once."""
        ...

    async def give_back(self) -> None:
        """Give back all machines, as far as that is possible in a few seconds."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Describe the supplier for people, as JSON values."""
        ...
