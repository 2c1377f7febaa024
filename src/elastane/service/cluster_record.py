"""The nodes and settings of the cluster, stored with the jobs so that a simulation can repeat them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastane.cluster import Node
from elastane.errors import ElastaneError
from elastane.service.store import Store


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes, the cores their slots share, and how often the cluster is re-divided."""

    nodes: Mapping[str, Node]
    cores: int | None
    interval_s: float | None
    min_run_s: float = 0.0

    @classmethod
    def of(cls, store: Store) -> Layout:
        """From the settings of the last control plane."""
        kept = store.setting("layout")
        if not kept:
            raise ElastaneError("this store does not know the cluster its jobs ran on")
        nodes = {name: Node(name, int(slots), kept["accelerator"]) for name, slots in kept["nodes"].items()}
        return cls(nodes, kept["cores"], kept["interval_s"], float(kept["min_run_s"]))

    def to_json(self) -> dict[str, object]:
        """The record as JSON values for the store."""
        kinds = sorted({node.gpu_type for node in self.nodes.values()})
        slots = {name: node.gpus for name, node in self.nodes.items()}
        return {
            "nodes": slots,
            "accelerator": kinds[0] if kinds else "cpu",
            "cores": self.cores,
            "interval_s": self.interval_s,
            "min_run_s": self.min_run_s,
        }
