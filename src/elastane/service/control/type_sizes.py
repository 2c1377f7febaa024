"""The size of an accelerator type says how much of it there is: a job never gets two of them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from elastane.cluster import Node


def slots_by_type(nodes: Iterable[Node]) -> Mapping[str, int]:
    """Slots of all these nodes by accelerator type, in the order in which types come first."""
    slots: Counter[str] = Counter()
    for node in nodes:
        slots[node.gpu_type] += node.gpus
    return slots


def most_slots(slots: Mapping[str, int], types: Collection[str]) -> int:
    """The most slots that a job can have which takes these types (none: any); 0 if there are none of them."""
    return max((count for kind, count in slots.items() if not types or kind in types), default=0)


def most_workers(slots: Mapping[str, int], types: Collection[str], each: float) -> int:
    """The same in workers of ``each`` slots; workers that take no slot are as many as there are slots."""
    most = most_slots(slots, types)
    return int(most / each) if each else most
