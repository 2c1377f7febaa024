"""What a machine offers: every accelerator belongs to one node, and a node has accelerators of one type."""

from __future__ import annotations

import pytest

from elastane.accelerators import Accelerator, Found
from elastane.errors import ElastaneError
from elastane.service.machine import cores, divide


def devices(*names: str) -> Found:
    return Found(tuple(Accelerator(f"GPU-{i}", name, 40.0) for i, name in enumerate(names)))


SAME = devices(*["A100"] * 6)
MIXED = devices("A100", "L4", "A100", "L4", "A100")


def test_every_accelerator_belongs_to_one_node() -> None:
    division = divide(3, None, SAME)
    assert division.devices == {"n0": ("GPU-0", "GPU-1"), "n1": ("GPU-2", "GPU-3"), "n2": ("GPU-4", "GPU-5")}
    assert {(node.gpus, node.gpu_type, node.gpu_memory_gb) for node in division.nodes.values()} == {
        (2, "a100", 40.0)
    }
    assert division.shared_cores is None


def test_one_type_is_one_node() -> None:
    assert [node.gpus for node in divide(None, None, SAME).nodes.values()] == [6]


def test_a_machine_with_two_types_is_two_nodes() -> None:
    division = divide(None, None, MIXED)
    assert [(node.gpus, node.gpu_type) for node in division.nodes.values()] == [(3, "a100"), (2, "l4")]
    assert division.devices == {"n0": ("GPU-0", "GPU-2", "GPU-4"), "n1": ("GPU-1", "GPU-3")}


def test_types_are_not_mixed_in_a_node_that_somebody_asks_for() -> None:
    assert [node.gpu_type for node in divide(2, 2, MIXED).nodes.values()] == ["a100", "l4"]
    with pytest.raises(ElastaneError, match="a node has accelerators of one type; here are 3 of a100, 2 of l4"):
        divide(1, 4, MIXED)


def test_instances_of_different_size_are_different_types_even_under_one_name() -> None:
    found = Found((Accelerator("MIG-a", "A100", 20.0, "GPU-1"), Accelerator("MIG-b", "A100", 5.0, "GPU-1")))
    assert [node.gpu_memory_gb for node in divide(None, None, found).nodes.values()] == [20.0, 5.0]


def test_more_than_there_is_is_refused() -> None:
    with pytest.raises(ElastaneError, match="--nodes 2 --slots 4: 8 slots, but 6 accelerators"):
        divide(2, 4, SAME)
    for wrong in ((0, None), (None, 0), (1001, None), (None, 1025)):
        with pytest.raises(ElastaneError, match="must be between"):
            divide(*wrong, SAME)


def test_without_accelerators_slots_are_cores() -> None:
    division = divide(1, None, Found(problems=("GPU 0 has fallen off the bus",)))
    assert [(node.gpus, node.gpu_type) for node in division.nodes.values()] == [(cores(), "cpu")]
    assert division.shared_cores == cores()
    assert division.devices == {}
    assert division.warnings == ("GPU 0 has fallen off the bus",)
    assert "slots share" in divide(2, cores(), Found()).warnings[0]
