"""Describes this machine as one node or several: accelerators where there are any, else CPU slots.

A node has accelerators of one type, because policies think of a node's type.  A machine with several types
becomes several nodes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from elastane.accelerators import Accelerator, Found, discover
from elastane.cluster import Node
from elastane.errors import ElastaneError

CPU = "cpu"
_MOST_NODES, _MOST_SLOTS = 1000, 1024


@dataclass(frozen=True, slots=True)
class Division:
    """(Virtual) nodes by name, the devices of those that have any, and what a person should know about them."""

    nodes: Mapping[str, Node]
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def shared_cores(self) -> int | None:
        """Cores that all slots share; None if slots are accelerators."""
        return None if self.devices else cores()


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def divide(nodes: int | None, slots: int | None, found: Found | None = None) -> Division:
    """This machine as ``nodes`` nodes of ``slots`` slots each, or as it lends itself; they share its cores."""
    division = _divided(nodes, slots, found)
    total = sum(node.gpus for node in division.nodes.values())
    each = {name: cores() * node.gpus / total for name, node in division.nodes.items()}
    return replace(division, nodes={n: replace(node, cpus=each[n]) for n, node in division.nodes.items()})


def _divided(nodes: int | None, slots: int | None, found: Found | None) -> Division:
    here = discover() if found is None else found
    if nodes is not None and not 1 <= nodes <= _MOST_NODES:
        raise ElastaneError(f"--nodes: must be between 1 and {_MOST_NODES}, not {nodes}")
    if slots is not None and not 1 <= slots <= _MOST_SLOTS:
        raise ElastaneError(f"--slots: must be between 1 and {_MOST_SLOTS}, not {slots}")
    if not here.devices:
        return _cpu_slots(nodes or 1, slots, here.problems)
    parts = _parts(here.devices, nodes, slots)
    return Division(
        {f"n{i}": Node(f"n{i}", len(part), part[0].kind, part[0].memory_gb) for i, part in enumerate(parts)},
        {f"n{i}": tuple(device.id for device in part) for i, part in enumerate(parts)},
        here.problems,
    )


def _cpu_slots(nodes: int, slots: int | None, problems: Sequence[str]) -> Division:
    each = slots if slots is not None else max(1, cores() // nodes)
    warnings = list(problems)
    if nodes * each > cores():
        warnings.append(f"{nodes * each} slots share {cores()} cores: jobs are slower while all are busy")
    return Division({f"n{i}": Node(f"n{i}", each, CPU) for i in range(nodes)}, warnings=tuple(warnings))


def _parts(
    devices: Sequence[Accelerator], nodes: int | None, slots: int | None
) -> list[tuple[Accelerator, ...]]:
    groups = by_type(devices)
    if nodes is None and slots is None:
        return groups
    count = nodes if nodes is not None else 1
    each = slots if slots is not None else max(1, len(devices) // count)
    if count * each > len(devices):
        told = f"{count * each} slots, but {len(devices)} accelerators"
        raise ElastaneError(f"--nodes {count} --slots {each}: {told}")
    parts = [group[first : first + each] for group in groups for first in range(0, len(group) - each + 1, each)]
    if count > len(parts):
        types = ", ".join(f"{len(group)} of {group[0].kind}" for group in groups)
        raise ElastaneError(
            f"--nodes {count} --slots {each}: a node has accelerators of one type; here are {types}"
        )
    return parts[:count]


def by_type(devices: Sequence[Accelerator]) -> list[tuple[Accelerator, ...]]:
    """Devices of the same type and memory together, in the order in which the types come first."""
    groups: dict[tuple[str, float], list[Accelerator]] = {}
    for device in devices:
        groups.setdefault((device.kind, device.memory_gb), []).append(device)
    return [tuple(group) for group in groups.values()]
