"""Pretended machines: incarnations, pools that deliver late or not at all, and what no cluster would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.cluster import Grant, Node
from elastane.engines.contract import Attempt, Launch, NodeFacts, Pool, Wanted
from elastane.testing.engines.fake_engine import FakeEngine
from elastane.testing.engines.fake_nodes import FakePool
from elastane.testing.engines.fake_work import Delays

GPU = Node("x", 2, "a100")


class Bench:
    """An engine with one node, one pool and a clock."""

    def __init__(self, **pool: float) -> None:
        self.now_s = 0.0
        pools = {"spot": FakePool(GPU, **{"most": 3, "delay_s": 5.0, **pool})}  # type: ignore[arg-type]
        self.engine = FakeEngine(
            [Node("n0", 2, "a100")], lambda: self.now_s, Delays(0.0, 0.0, 0.0), pools=pools
        )

    def after(self, seconds: float) -> list[str]:
        self.now_s += seconds
        return list(self.engine.nodes())

    def start(self, job: str, node: str) -> None:
        where = {"FAKE_SAMPLES": "1e9"}
        paths = Path("/tmp/a"), Path("/tmp/r")
        launch = Launch(Attempt(job, 1), job, ("train",), "/tmp", *paths, environment=where)
        self.engine.ensure(Wanted(launch, Grant.of([(node, 1)])))
        self.engine.reports()


def test_a_node_that_returns_is_another_incarnation() -> None:
    engine = Bench().engine
    first = engine.node_facts()["n0"]
    engine.say("n0", suspect=True)
    assert engine.node_facts()["n0"] == NodeFacts(first.incarnation, suspect=True)
    engine.restart_node("n0")
    assert engine.node_facts()["n0"].incarnation != first.incarnation
    engine.remove_node("n0")
    assert not engine.known_nodes()
    engine.add_node(Node("n0", 2, "a100"), address="10.0.0.7")
    facts = engine.node_facts()["n0"]
    assert (facts.address, list(engine.nodes())) == ("10.0.0.7", ["n0"])


def test_a_pool_delivers_after_a_while_and_no_more_than_it_has() -> None:
    bench = Bench(stock=2)
    bench.engine.want("spot", 3, ())
    assert bench.after(4.0) == ["n0"]
    bench.engine.want("spot", 3, ())
    assert bench.after(1.0) == ["n0", "spot-0", "spot-1"]
    assert bench.engine.node_facts()["spot-0"].pool == "spot"
    assert bench.engine.pools()["spot"] == Pool(GPU, 2, 0, 3, 0.0)
    bench.engine.want("spot", 3, ("spot-0", "spot-1"))
    assert bench.after(100.0) == ["n0", "spot-0", "spot-1"]


def test_what_was_asked_for_and_is_no_longer_wanted_does_not_come() -> None:
    bench = Bench()
    bench.engine.want("spot", 2, ())
    bench.after(1.0)
    bench.engine.want("spot", 0, ())
    assert bench.after(100.0) == ["n0"]


def test_only_those_go_that_nobody_keeps_and_never_one_with_workers() -> None:
    bench = Bench()
    bench.engine.want("spot", 2, ())
    bench.after(5.0)
    bench.start("j1", "spot-0")
    bench.engine.want("spot", 1, ("spot-0",))
    assert bench.after(0.0) == ["n0", "spot-0"]
    with pytest.raises(AssertionError, match="spot-0 is given back with workers on it"):
        bench.engine.want("spot", 0, ())
