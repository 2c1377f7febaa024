"""Workers are started where a fork server is ready, wait where none is, and are not started once they were given up."""

from __future__ import annotations

from typing import Any

from elastane.train.coordinator.messages import Refused, SendSignal, Spawn
from elastane.train.coordinator.peers import ForkServerTable, Peer
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


def test_a_worker_waits_for_the_fork_server_of_its_node() -> None:
    fork_servers, host = ForkServerTable(), FakeHost({"w1": "n1", "w2": "n1"})
    spawning = Spawning(host, fork_servers, {})
    spawning.spawn("w1")
    spawning.spawn("w2")
    spawning.spawn_waiting()
    assert list(spawning.waiting("n1")) == ["w1", "w2"]
    spawning.kill("w1", "no longer wanted")
    fork_server = fork_servers.ready["n1"] = Heard("nursery", "n1")
    spawning.spawn_waiting()
    order = host.order("w2")
    assert order is not None
    assert fork_server.heard == [Spawn(order)]
    assert not spawning.waiting("n1")


def test_a_worker_that_is_given_up_hears_why_and_its_process_is_ended() -> None:
    fork_servers, worker = ForkServerTable(), Heard("worker", "w1")
    fork_server = fork_servers.ready["n1"] = Heard("nursery", "n1")
    Spawning(FakeHost({"w1": "n1"}), fork_servers, {"w1": worker}).kill("w1", "silent")
    assert worker.heard == [Refused("silent")]
    assert fork_server.heard == [SendSignal("w1")]


def test_a_fork_server_that_comes_back_counts_once_it_has_ended_who_was_given_up() -> None:
    fork_servers, first, again = ForkServerTable(), Heard("nursery", "n1"), Heard("nursery", "n1")
    first.stale = {"w7"}
    assert fork_servers.admit(first)
    assert not fork_servers.counts_now(first)
    assert set(fork_servers.nodes) == {"n1"}
    first.stale.clear()
    assert fork_servers.counts_now(first)
    assert not fork_servers.counts_now(first)
    assert not fork_servers.forget(again)
    assert fork_servers.forget(first)
    assert not fork_servers.nodes
    assert fork_servers.was_met("n1")
