"""``WorkerEnds`` concludes from lines that end, exit codes and silence which workers are gone, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from elastane.train.coordinator.actions import UNTIMED_S, Action
from elastane.train.coordinator.contract import Decider
from elastane.train.coordinator.host import Host
from elastane.train.coordinator.leases import AwakeClock, fork_server_lease_s
from elastane.train.coordinator.messages import Exited, Refused
from elastane.train.coordinator.peers import ForkServerTable, Peer
from elastane.train.coordinator.spawning import Spawning
from elastane.train.exit_cause import NODE_LOST, ExitCause
from elastane.train.reports.events import Warned

UNCONFIRMED_S = 1.0
"""Grace period before a disconnected worker counts as dead when the fork server of its node cannot be asked."""
RETURN_S = 4.0
"""How long a fork server may take to find a supervisor that has replaced its own; it looks every second."""


class WorkerEnds:
    """Tells the coordinator of every worker's end, once."""

    def __init__(
        self,
        coordinator: Decider,
        host: Host,
        clock: AwakeClock,
        workers: dict[str, Peer],
        fork_servers: ForkServerTable,
        spawning: Spawning,
        perform: Callable[[list[Action]], None],
        lease_s: float,
        cut_off: Callable[[str], bool],
    ) -> None:
        """``lease_s`` and ``cut_off`` are those of the server."""
        self._closing = False
        self.lease_s = lease_s
        self.cut_off = cut_off
        self.left: dict[str, Peer] = {}
        """Of nodes and workers whose way is cut off: who left last, for whoever comes back is another one."""
        self._coordinator = coordinator
        self._host = host
        self._clock = clock
        self._workers = workers
        self._fork_servers = fork_servers
        self._spawning = spawning
        self._perform = perform
        self._exits: dict[str, ExitCause] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        """Who waits for the end of the log of a worker that has ended."""

    def close(self) -> None:
        """From now on nobody is missed."""
        self._closing = True

    def stop_reading(self) -> None:
        """No log is waited for any longer."""
        for task in self._reading.values():
            task.cancel()

    def came_back(self, peer: Peer) -> None:
        """A worker or a fork server is connected (again)."""
        self.left.pop(_key(peer), None)

    def gone(self, peer: Peer) -> None:
        """A connection has ended."""
        if peer.role == "nursery" and self._fork_servers.forget(peer):
            if self.cut_off(peer.name):
                self._expect_back(peer)
            else:
                self._node_lost(peer.name)
        if peer.role == "worker" and self._workers.get(peer.name) is peer:
            del self._workers[peer.name]
            self._exited(peer.name)
            node = self._host.node_of(peer.name)
            if self.cut_off(node):
                self._expect_back(peer)
                return
            met = self._fork_servers.was_met(node)
            if met and node not in self._fork_servers.ready and not self._closing:
                self._lost(peer.name)
            # A process that ended is announced by its fork server within milliseconds; only a lost machine is not.
            # To a supervisor that took the job over, the fork server itself may still be on its way.
            patience_s = UNCONFIRMED_S if met else RETURN_S
            asyncio.get_running_loop().call_later(patience_s, self._unconfirmed, peer.name)

    def _expect_back(self, peer: Peer) -> None:
        self.left[_key(peer)] = peer
        asyncio.get_running_loop().call_later(self.lease_s, self.still_lost, peer)

    def still_lost(self, peer: Peer) -> None:
        """Whoever could not be heard has had its time to come back."""
        if self.left.get(_key(peer)) is peer:
            del self.left[_key(peer)]
            if peer.role == "nursery":
                self._node_lost(peer.name)
            else:
                self._unconfirmed(peer.name)

    def look_for_silence(self, now_s: float) -> None:
        """Give up fork servers that promised signs of life and gave none."""
        patience_s = fork_server_lease_s(self.lease_s)
        for peer in self._fork_servers.all:
            if peer.beats and now_s - peer.heard_s > patience_s:
                self._silent(peer, patience_s)

    def _silent(self, peer: Peer, patience_s: float) -> None:
        """Give up a fork server that says nothing, with all workers of its node: nobody could start or end them."""
        peer.writer.transport.abort()
        self._fork_servers.forget(peer)
        if self._closing or self._coordinator.outcome is not None:
            return
        text = f"node {peer.name} gave no sign of life for {patience_s:g} s; its workers count as lost"
        self._host.happened(Warned(UNTIMED_S, text))
        self._host.silent(peer.name)
        for worker in self._on(peer.name):
            if worker in self._workers:  # its process may be well; it must not go on all the same
                self._workers[worker].write(Refused(str(NODE_LOST)))
            self._lost(worker)

    def announced(self, message: Exited) -> None:
        """A fork server says how a process has ended."""
        worker = message.worker
        self._exits[worker] = ExitCause.of_process(message.code, out_of_memory=message.out_of_memory)
        # Its last words may still be on their way: they are read before the end of its connection is.
        if worker in self._workers:
            asyncio.get_running_loop().call_later(UNCONFIRMED_S, self._exited, worker)
        else:
            self._exited(worker)

    def _on(self, node: str) -> Sequence[str]:
        """Workers of a node that were started, or may have been."""
        alive = [worker.name for worker in self._coordinator.workers.values() if worker.alive]
        waiting = self._spawning.waiting(node)
        return [name for name in alive if self._host.node_of(name) == node and name not in waiting]

    def _node_lost(self, node: str) -> None:
        """Workers do not outlive their fork server; those that talk to us are heard ending."""
        if self._closing or self._coordinator.outcome is not None:
            return
        for worker in self._on(node):
            if worker not in self._workers:
                self._lost(worker)

    def _lost(self, worker: str) -> None:
        if worker in self._reading:  # it had ended before
            self._reading[worker].cancel()
            self._take_exit(worker)
        else:
            self._perform(self._coordinator.exited(worker, NODE_LOST, self._clock.now_s()))

    def _unconfirmed(self, worker: str) -> None:
        if worker not in self._workers and self._host.node_of(worker) not in self._fork_servers.ready:
            self._lost(worker)

    def _exited(self, worker: str) -> None:
        """Take an exit in; the log of a worker that said nothing itself may still be on its way."""
        cause = self._exits.get(worker)
        if cause is None or worker in self._reading:
            return
        coming = self._host.log_comes(worker) if self._is_mute(worker, cause) else None
        if coming is None:
            self._take_exit(worker)
        else:
            self._reading[worker] = asyncio.create_task(self._read(worker, coming))

    def _is_mute(self, worker: str, cause: ExitCause) -> bool:
        """Whether only its log can say why a worker ended."""
        known = self._coordinator.workers.get(worker)
        return not cause.clean and known is not None and not known.seen_s

    async def _read(self, worker: str, coming: Awaitable[object]) -> None:
        await coming
        self._take_exit(worker)

    def _take_exit(self, worker: str) -> None:
        self._reading.pop(worker, None)
        cause = self._exits.pop(worker, None)
        if cause is not None:
            words = self._host.last_words(worker) if self._is_mute(worker, cause) else ""
            if words:
                self._coordinator.said_goodbye(worker, words)
            self._perform(self._coordinator.exited(worker, cause, self._clock.now_s()))


def _key(peer: Peer) -> str:
    """The name of a peer where workers and nodes are named side by side."""
    return f"node {peer.name}" if peer.role == "nursery" else peer.name
