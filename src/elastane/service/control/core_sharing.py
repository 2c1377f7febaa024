"""Slots share cores: those of a machine without accelerators, whatever nodes it was divided into."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from elastane.cluster import Node
from elastane.engines.contract import NodeFacts
from elastane.simcore.physics import core_share

CPU, HEAD = "cpu", "head"


def cores_of(node: Node, facts: NodeFacts) -> int:
    """Cores of the machine that a node stands on; 0 if that is not known."""
    return facts.cores or (int(node.cpus) if math.isfinite(node.cpus) else 0)


def memory_of(node: Node, facts: NodeFacts) -> float:
    """Main memory of the machine, in GB; 0 if that is not known."""
    return facts.memory_gb or (node.memory_gb if math.isfinite(node.memory_gb) else 0.0)


@dataclass(frozen=True, slots=True)
class Machines:
    """Machines whose slots share cores: ``of`` nodes by name, and the cores and slots of each."""

    of: Mapping[str, str] = field(default_factory=dict)
    cores: Mapping[str, int] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def found(cls, nodes: Mapping[str, Node], facts: Mapping[str, NodeFacts]) -> Machines:
        """Machines of these nodes; nodes at one address are one, and those with devices or unknown cores are none."""
        of: dict[str, str] = {}
        cores: dict[str, int] = {}
        slots: dict[str, int] = {}
        for name, node in nodes.items():
            known = facts.get(name, NodeFacts())
            count = cores_of(node, known)
            if node.gpu_type != CPU or not count:
                continue
            machine = known.address or HEAD
            of[name], cores[machine] = machine, max(count, cores.get(machine, 0))
            slots[machine] = slots.get(machine, 0) + node.gpus
        return cls(of, cores, slots)

    @property
    def total(self) -> int | None:
        """Cores of all machines together; None if no slots share any."""
        return sum(self.cores.values()) or None

    def busy(self, held: Iterable[tuple[Mapping[str, int], float]]) -> dict[str, float]:
        """Slots in use by machine, of jobs that have (workers by node, slots of each worker)."""
        used: dict[str, float] = {}
        for places, each in held if self.of else ():
            for node, count in places.items():
                machine = self.of.get(node)
                if machine is not None:
                    used[machine] = used.get(machine, 0.0) + count * each
        return used

    def share(self, nodes: Iterable[str], busy: Mapping[str, float]) -> float:
        """The part of its full speed that a job has on these nodes: its workers wait for the slowest."""
        there = {self.of[node] for node in nodes if node in self.of}
        return min((core_share(self.cores[each], busy.get(each, 0.0)) for each in there), default=1.0)

    def foreseen(self, workers: float, *, all_busy: bool) -> float:
        """The part that a job of so many workers may expect, when all slots are busy or only its own are."""
        if all_busy:
            return min((core_share(self.cores[each], self.slots[each]) for each in self.cores), default=1.0)
        best = [core_share(self.cores[each], min(workers, self.slots[each])) for each in self.cores]
        return max(best, default=1.0)
