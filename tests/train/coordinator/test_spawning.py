"""Workers are started where a nursery is ready, wait where none is, and are not started once they were given up."""

from __future__ import annotations

from typing import Any

from elastane.train.coordinator.messages import Refused, SendSignal, Spawn
from elastane.train.coordinator.peers import NurseryTable, Peer
from elastane.train.coordinator.spawning import Spawning
from train.coordinator.hosts import FakeHost


class Heard(Peer):
    """A peer without a connection; it remembers what it was told."""

    def __init__(self, role: str, name: str) -> None:
        writer: Any = None
        super().__init__(role, name, writer)
        self.heard: list[object] = []

    def write(self, message: object) -> None:
        self.heard.append(message)


def test_a_worker_waits_for_the_nursery_of_its_node() -> None:
    nurseries, host = NurseryTable(), FakeHost({"w1": "n1", "w2": "n1"})
    spawning = Spawning(host, nurseries, {})
    spawning.spawn("w1")
    spawning.spawn("w2")
    spawning.spawn_waiting()
    assert list(spawning.waiting("n1")) == ["w1", "w2"]
    spawning.kill("w1", "no longer wanted")
    nursery = nurseries.ready["n1"] = Heard("nursery", "n1")
    spawning.spawn_waiting()
    order = host.order("w2")
    assert order is not None
    assert nursery.heard == [Spawn(order)]
    assert not spawning.waiting("n1")


def test_a_worker_that_is_given_up_hears_why_and_its_process_is_ended() -> None:
    nurseries, worker = NurseryTable(), Heard("worker", "w1")
    nursery = nurseries.ready["n1"] = Heard("nursery", "n1")
    Spawning(FakeHost({"w1": "n1"}), nurseries, {"w1": worker}).kill("w1", "silent")
    assert worker.heard == [Refused("silent")]
    assert nursery.heard == [SendSignal("w1")]


def test_a_nursery_that_comes_back_counts_once_it_has_ended_who_was_given_up() -> None:
    nurseries, first, again = NurseryTable(), Heard("nursery", "n1"), Heard("nursery", "n1")
    first.stale = {"w7"}
    assert nurseries.admit(first)
    assert not nurseries.counts_now(first)
    assert set(nurseries.nodes) == {"n1"}
    first.stale.clear()
    assert nurseries.counts_now(first)
    assert not nurseries.counts_now(first)
    assert not nurseries.forget(again)
    assert nurseries.forget(first)
    assert not nurseries.nodes
    assert nurseries.was_met("n1")
