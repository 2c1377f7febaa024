"""What a machine offers: accelerators are numbered through, node by node."""

from __future__ import annotations

from elastane.cluster import Node
from elastane.service.machine import devices_of


def test_every_accelerator_belongs_to_one_node() -> None:
    nodes = {name: Node(name, 2, "a100") for name in ("n0", "n1", "n2")}
    assert devices_of(nodes) == {"n0": (0, 1), "n1": (2, 3), "n2": (4, 5)}


def test_cores_have_no_numbers() -> None:
    assert devices_of({"n0": Node("n0", 4, "cpu")}) == {}
