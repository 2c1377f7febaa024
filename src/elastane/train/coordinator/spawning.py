"""``Spawning`` has fork servers start, signal and end workers; who cannot be started yet waits for a fork server."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from elastane.train.coordinator.host import Host
from elastane.train.coordinator.messages import Refused, SendSignal, Spawn
from elastane.train.coordinator.peers import ForkServerTable, Peer


class Spawning:
    """Orders for the processes of one job's workers."""

    def __init__(self, host: Host, fork_servers: ForkServerTable, workers: Mapping[str, Peer]) -> None:
        """``workers`` are those that are connected."""
        self._host = host
        self._fork_servers = fork_servers
        self._workers = workers
        self._unspawned: dict[str, list[str]] = {}

    def spawn(self, worker: str) -> None:
        """Start a worker, now or once its node has a fork server and its order can be said."""
        node = self._host.node_of(worker)
        fork_server = self._fork_servers.ready.get(node)
        order = self._host.order(worker) if fork_server is not None else None
        if fork_server is None or order is None:
            self._unspawned.setdefault(node, []).append(worker)
        else:
            fork_server.write(Spawn(order))

    def spawn_waiting(self) -> None:
        """Start those who wait for a fork server that is there now, or for what another one had to say first."""
        for node in [node for node in self._unspawned if node in self._fork_servers.ready]:
            for worker in self._unspawned.pop(node):
                self.spawn(worker)

    def waiting(self, node: str) -> Collection[str]:
        """Workers that are to be started on a node, and were not."""
        return self._unspawned.get(node, ())

    def kill(self, worker: str, why: str) -> None:
        """Make sure that a worker's process is gone, and that it does not come into being."""
        for waiting in self._unspawned.values():
            if worker in waiting:
                waiting.remove(worker)
        if worker in self._workers:
            self._workers[worker].write(Refused(why))
        self._tell(worker, SendSignal(worker))

    def signal(self, worker: str, number: int) -> None:
        """Send a signal to a worker's process."""
        self._tell(worker, SendSignal(worker, number))

    def _tell(self, worker: str, message: SendSignal) -> None:
        fork_server = self._fork_servers.ready.get(self._host.node_of(worker))
        if fork_server is not None:
            fork_server.write(message)
