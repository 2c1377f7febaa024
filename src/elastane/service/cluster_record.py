"""The nodes and settings of the cluster, stored with the jobs so that a simulation can repeat them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from elastane.cluster import Node
from elastane.engines.contract import NodeFacts
from elastane.errors import ElastaneError
from elastane.service.control.core_sharing import HEAD, Machines
from elastane.service.store import Store


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes, the machines whose cores their slots share, and how often the cluster is re-divided."""

    nodes: Mapping[str, Node]
    machines: Machines
    interval_s: float | None
    min_run_s: float = 0.0

    @classmethod
    def of(cls, store: Store) -> Layout:
        """From the settings of the last control plane; earlier versions knew one type, and one machine's cores."""
        kept = store.settings.get("layout")
        if not kept:
            raise ElastaneError("this store does not know the cluster its jobs ran on")
        rows = {
            name: row if isinstance(row, Mapping) else _uniform(int(row), kept)
            for name, row in kept["nodes"].items()
        }
        nodes = {name: _node(name, row) for name, row in rows.items()}
        facts = {
            name: NodeFacts(address=row["machine"], cores=int(row["cores"] or 0)) for name, row in rows.items()
        }
        return cls(nodes, Machines.found(nodes, facts), kept["interval_s"], float(kept["min_run_s"]))

    def to_json(self) -> dict[str, object]:
        """The record as JSON values for the store."""
        return {
            "nodes": {name: self._row(name, node) for name, node in self.nodes.items()},
            "interval_s": self.interval_s,
            "min_run_s": self.min_run_s,
        }

    def _row(self, name: str, node: Node) -> dict[str, object]:
        machine = self.machines.of.get(name, "")
        return {
            "slots": node.gpus,
            "accelerator": node.gpu_type,
            "memory_gb": node.gpu_memory_gb,
            "machine": machine,
            "cores": self.machines.cores.get(machine),
        } | ({"cpus": node.cpus} if math.isfinite(node.cpus) else {})


def _uniform(slots: int, kept: Mapping[str, Any]) -> dict[str, Any]:
    return {"slots": slots, "accelerator": kept["accelerator"], "machine": HEAD, "cores": kept["cores"]}


def _node(name: str, row: Mapping[str, Any]) -> Node:
    node = Node(name, int(row["slots"]), row["accelerator"], cpus=float(row.get("cpus", math.inf)))
    return replace(node, gpu_memory_gb=float(row["memory_gb"])) if "memory_gb" in row else node
