"""What a node says of itself becomes what policies and people see of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from elastane.cluster import Node
from elastane.engines.contract import NodeFacts
from elastane.engines.local.engine import LocalEngine
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.messages import PROTOCOL, NodeDevice, NodeHello
from elastane.engines.nodes.node_file import NodeFile, read_node, write_node
from elastane.errors import ElastaneError

CPUS = NodeHello(PROTOCOL, "far", "i1", address="10.0.0.7", cores=12, memory_gb=64.0, pool="spot")


def test_a_machine_without_accelerators_offers_its_cores() -> None:
    assert NodeFile(CPUS).node() == Node("far", 12, "cpu", cpus=12.0, memory_gb=64.0)


def test_of_several_types_of_accelerators_the_most_numerous_is_used() -> None:
    devices = (
        NodeDevice("GPU-a", "l4", 24.0),
        NodeDevice("GPU-b", "a100", 80.0),
        NodeDevice("GPU-c", "a100", 80.0),
    )
    file = NodeFile(NodeHello(PROTOCOL, "far", "i1", cores=12, memory_gb=64.0, devices=devices))
    assert file.node() == Node("far", 2, "a100", 80.0, 12.0, 64.0)
    assert file.facts().accelerators == ("GPU-b", "GPU-c")


def test_what_is_written_is_read_and_nonsense_is_no_node(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.node("far").mkdir(parents=True)
    file = NodeFile(CPUS, present=True, suspect=True, former=tuple(f"i{n}" for n in range(30)), leaving_s=9.0)
    write_node(layout, "far", file)
    found = read_node(layout, "far")
    assert found is not None
    assert found.former == tuple(f"i{n}" for n in range(10, 30))
    assert found.facts() == NodeFacts("i1", "10.0.0.7", "spot", (), "", True, 9.0, cores=12, memory_gb=64.0)
    for nonsense in ("", "[]", "{}", '{"hello": 3}'):
        layout.joined("far").write_text(nonsense)
        assert read_node(layout, "far") is None


def test_an_engine_alone_tells_of_its_own_nodes_and_listens_to_nobody(tmp_path: Path) -> None:
    nodes = {"n0": Node("n0", 2, "cpu"), "n1": Node("n1", 1)}
    engine = LocalEngine(tmp_path, nodes, {"n1": ("GPU-a",)})
    assert {name: facts.accelerators for name, facts in engine.node_facts().items()} == {
        "n0": (),
        "n1": ("GPU-a",),
    }
    assert not any(facts.address for facts in engine.node_facts().values())
    assert engine.listening() == ""
    assert engine.facts()["elsewhere"] == 0


def test_a_name_of_our_own_must_not_have_joined_already(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.node("n0").mkdir(parents=True)
    write_node(layout, "n0", NodeFile(CPUS))
    engine = LocalEngine(tmp_path, {"n0": Node("n0", 2, "cpu")})
    with pytest.raises(ElastaneError, match="another machine has joined as node n0"):
        asyncio.run(engine.open())


def test_where_to_listen_has_to_be_an_address(tmp_path: Path) -> None:
    with pytest.raises(ElastaneError, match="--listen: must be HOST:PORT"):
        LocalEngine(tmp_path, {}, listen="7077")
