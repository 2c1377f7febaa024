"""What the engine of one machine says of its virtual nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.cluster import Node
from elastane.engines.local.engine import LocalEngine
from elastane.errors import ElastaneError


def test_virtual_nodes_are_declared_and_share_this_machines_cores(tmp_path: Path) -> None:
    nodes = {"n0": Node("n0", 2, "cpu"), "g0": Node("g0", 1, "a100", 80.0)}
    engine = LocalEngine(tmp_path, nodes, {"g0": ("GPU-1",)})
    facts = engine.node_facts()
    assert {name: each.incarnation for name, each in facts.items()} == {"n0": "n0", "g0": "g0"}
    assert all(each.declared and each.cores >= 1 and each.memory_gb > 0.0 for each in facts.values())
    assert {each.address for each in facts.values()} == {""}
    assert (facts["n0"].accelerators, facts["g0"].accelerators) == ((), ("GPU-1",))


def test_one_machine_has_no_pools(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path, {"n0": Node("n0", 1, "cpu")})
    assert engine.pools() == {}
    with pytest.raises(ElastaneError, match="pool: there is none called spot"):
        engine.want("spot", 1, ())
