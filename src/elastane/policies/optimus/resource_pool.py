"""The cluster's resources as one vector, while tasks are being handed out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from elastane.cluster import Node
from elastane.policies.reasons import Gpus, Part, listed
from elastane.resources import Resources

Amounts = tuple[float, ...]

_UNITS = ("GPU", "CPU", "GB of memory", "Gbit/s")
_SLACK = 1e-9


class Task(NamedTuple):
    """What one task takes of each accounted resource, and the amount its marginal gain is divided by."""

    need: Amounts
    amount: float


class ResourcePool:
    """Free amounts of every resource that all nodes account; a resource unlimited somewhere is not counted.

    Plain tuples in place of ``Resources``, because a round asks about every task of the cluster.
    """

    def __init__(self, nodes: Iterable[Node], by_share: bool = False) -> None:
        room = [_amounts(node.capacity) for node in nodes if not node.draining]
        totals = [sum(column) for column in zip(*room, strict=True)] or [0.0] * len(_UNITS)
        self._kept = tuple(i for i, total in enumerate(totals) if math.isfinite(total))
        self.capacity: Amounts = tuple(totals[i] for i in self._kept)
        self.widest: Amounts = tuple(max((have[i] for have in room), default=0.0) for i in self._kept)
        self.machines = len(room)
        self._free = list(self.capacity)
        self._by_share = by_share
        self._tasks: dict[Resources, Task] = {}

    def task(self, needed: Resources) -> Task:
        """Returns what one task of this kind takes; kept, because jobs ask for few different kinds."""
        found = self._tasks.get(needed)
        if found is None:
            amounts = _amounts(needed)
            need = tuple(amounts[i] for i in self._kept)
            found = self._tasks[needed] = Task(need, self._divisor(need))
        return found

    def _divisor(self, need: Amounts) -> float:
        """Amount of the dominant resource; by share it is expressed in the first resource's units (GPUs).

        The published rule divides by the bare amount, which sets a CPU core equal to a GPU as soon as two
        tasks are dominated by different resources.
        """
        shares = [amount / have if have else 0.0 for amount, have in zip(need, self.capacity, strict=True)]
        top = max(range(len(need)), key=lambda i: shares[i])
        if not self._by_share or top == 0:
            return need[top] if shares[top] > 0.0 else 0.0
        return shares[top] * (self.capacity[0] or 1.0)

    def share(self, need: Amounts) -> float:
        """Returns the dominant share: the largest fraction of any resource of the whole cluster."""
        parts = (amount / have for amount, have in zip(need, self.capacity, strict=True) if have)
        return max(parts, default=0.0)

    def fits(self, need: Amounts) -> bool:
        """Whether that much is still free."""
        for amount, have in zip(need, self._free, strict=True):  # noqa: SIM110 - asked for every task
            if amount > have + _SLACK:
                return False
        return True

    def take(self, need: Amounts) -> None:
        """Subtracts one task's resources from the pool."""
        for i, amount in enumerate(need):
            self._free[i] -= amount

    def count(self, need: Amounts, most: int) -> int:
        """Returns how many more tasks of this kind fit into what is free, ``most`` at the most."""
        counts = (
            int((have + _SLACK) / amount) for amount, have in zip(need, self._free, strict=True) if amount
        )
        return min(most, *counts, most)

    def describe(self, need: Amounts) -> str:
        """Amounts in words, for those resources the task needs."""
        return _words(need, need, self._kept)

    def describe_free(self, need: Amounts) -> str:
        """What is free in words, for those resources the task needs."""
        return _words(self._free, need, self._kept)


def total(*parts: tuple[Amounts, int]) -> Amounts:
    """Returns the summed amounts of several kinds of tasks, each given with its number."""
    return tuple(sum(column) for column in zip(*([a * n for a in need] for need, n in parts), strict=True))


def _amounts(resources: Resources) -> Amounts:
    return resources.gpus, resources.cpus, resources.memory_gb, resources.bandwidth_gbps


def _words(amounts: Iterable[float], need: Amounts, kept: tuple[int, ...]) -> str:
    words: list[Part] = []
    for amount, needed, i in zip(amounts, need, kept, strict=True):
        if needed and i == 0:
            words.append(Gpus(float(max(amount, 0.0))))
        elif needed:
            plural = "s" if i == 1 and amount != 1 else ""
            words.append(f"{max(amount, 0.0):g} {_UNITS[i]}{plural}")
    return listed(words) if words else "nothing that is accounted"
