"""Serves one coordinator: accepts connections, tells it what is said and what time it is, performs its actions.

One asyncio loop per job, without PyTorch.  Workers and nurseries (the parents of workers) connect here with one
token, clients (the command line, the live system) with another.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from elastane.train.coordinator import wire
from elastane.train.coordinator.actions import Action, Emit, Finish, Kill, Record, Send, Signal
from elastane.train.coordinator.actions import Spawn as SpawnWorker
from elastane.train.coordinator.address_book import AddressBook, news_of
from elastane.train.coordinator.contract import Decider
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.hear_worker import seconds, told
from elastane.train.coordinator.host import Host
from elastane.train.coordinator.leases import LEASE_S, AwakeClock, nursery_lease_s
from elastane.train.coordinator.login_reader import BUFFER_BYTES, LineReader, Tokens, admit
from elastane.train.coordinator.membership_status import status_of
from elastane.train.coordinator.messages import (
    FROM_CLIENT,
    FROM_NURSERY,
    FROM_WORKER,
    Address,
    AskStatus,
    Exited,
    FromClient,
    FromNursery,
    FromWorker,
    Goodbye,
    NotUnderstood,
    NurseryBeat,
    NurseryHello,
    Ok,
    Place,
    Refused,
    Reported,
    Resize,
    SendSignal,
    SignalWorker,
    Spawn,
    Started,
    Status,
    StopJob,
    StopNursery,
    ToClient,
    WorkerHello,
)
from elastane.train.coordinator.plan_log import PlanLog
from elastane.train.coordinator.wire import Message
from elastane.train.exit_cause import NODE_LOST, ExitCause

TICK_S = 0.25
UNCONFIRMED_S = 1.0
"""Grace period before a disconnected worker counts as dead when the nursery of its node cannot be asked."""
RETURN_S = 4.0
"""How long a nursery may take to find a supervisor that has replaced its own; it looks every second."""

STOP_S = 5.0
"""How long nurseries may take to end their workers and themselves."""


@dataclass(slots=True)
class _Peer:
    role: str
    name: str
    writer: asyncio.StreamWriter
    heard_s: float = 0.0
    beats: bool = False
    """Whether it promised signs of life; a nursery of an earlier version does not."""
    stale: set[str] = field(default_factory=set)
    """Of a nursery that comes back: workers it still has that were given up, until it has ended them."""


@dataclass(slots=True)
class CoordinationServer:
    """Runs one coordinator until its job is over."""

    coordinator: Decider
    log: PlanLog
    tokens: Tokens
    host: Host
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    pids: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """Where nodes are reached by others, as their nurseries said."""
    lease_s: float = LEASE_S
    """How long a worker may be silent; nurseries a little less."""
    cut_off: Callable[[str], bool] = lambda _node: False
    """Whether the way to a node is interrupted while all may be well there: who is gone has a lease to come back."""
    problem: str = ""
    """Why a nursery that was asked for cannot start workers, as it said itself."""
    _clock: AwakeClock = field(default_factory=AwakeClock)
    _workers: dict[str, _Peer] = field(default_factory=dict)
    _nurseries: dict[str, _Peer] = field(default_factory=dict)
    _returning: dict[str, _Peer] = field(default_factory=dict)
    _left: dict[str, _Peer] = field(default_factory=dict)
    """Of nodes and workers whose way is cut off: who left last, for whoever comes back is another one."""
    _unspawned: dict[str, list[str]] = field(default_factory=dict)
    _exits: dict[str, ExitCause] = field(default_factory=dict)
    _reading: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Who waits for the end of the log of a worker that has ended."""
    _book: AddressBook = field(default_factory=AddressBook)
    _met: set[str] = field(default_factory=set)
    _misunderstood: set[str] = field(default_factory=set)
    _closing: bool = False
    _server: asyncio.Server | None = None
    _ticker: asyncio.Task[None] | None = None

    @property
    def now_s(self) -> float:
        """The coordinator's time, which stands still while this process does not run."""
        return self._clock.now_s()

    async def open(self, host: str, port: int = 0) -> int:
        """Listen; returns the port (0 asks for a free one)."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=BUFFER_BYTES)
        self._ticker = asyncio.create_task(self._tick())
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop nurseries (and with them every worker that is left), then listening."""
        self._closing = True
        for peer in [*self._nurseries.values(), *self._returning.values()]:
            self._write(peer, StopNursery())
        deadline = time.monotonic() + STOP_S
        while self._nurseries and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        for task in (*self._reading.values(), *filter(None, [self._ticker])):
            task.cancel()
        if self._server is not None:
            self._server.close()
        for peer in [*self._workers.values(), *self._nurseries.values()]:
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(peer.writer.drain(), 1.0)
            peer.writer.close()

    def perform(self, actions: list[Action]) -> None:
        """Carry out what the coordinator decided, in order."""
        # Who starts may have to be told where the others of its gang are, so all are placed first.
        for spawn in [action for action in actions if isinstance(action, SpawnWorker)]:
            self.host.choose_node(spawn.worker)
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case Record(entry):
                self.log.append(entry)
                if entry["type"] == "plan":
                    self._book.begin(entry["plan"]["generation"])
            case Send(worker, message):
                if worker in self._workers:
                    self._write(self._workers[worker], message)
            case SpawnWorker(worker):
                self._spawn(worker)
            case Kill(worker, why):
                self._kill(worker, why)
            case Signal(worker, number):
                self.signal(worker, number)
            case Emit(event):
                self.host.event(event)
            case Finish():
                self.finished.set()

    def _spawn(self, worker: str) -> None:
        node = self.host.node_of(worker)
        nursery = self._nurseries.get(node)
        order = self.host.order(worker) if nursery is not None else None
        if nursery is None or order is None:
            self._unspawned.setdefault(node, []).append(worker)
        else:
            self._write(nursery, Spawn(order))

    def _spawn_waiting(self) -> None:
        """Start those who wait for a nursery that is there now, or for what another one had to say first."""
        for node in [node for node in self._unspawned if node in self._nurseries]:
            for worker in self._unspawned.pop(node):
                self._spawn(worker)

    def _kill(self, worker: str, why: str) -> None:
        for waiting in self._unspawned.values():
            if worker in waiting:
                waiting.remove(worker)
        if worker in self._workers:
            self._write(self._workers[worker], Refused(why))
        nursery = self._nurseries.get(self.host.node_of(worker))
        if nursery is not None:
            self._write(nursery, SendSignal(worker))

    def signal(self, worker: str, number: int) -> None:
        """Send a signal to a worker's process."""
        nursery = self._nurseries.get(self.host.node_of(worker))
        if nursery is not None:
            self._write(nursery, SendSignal(worker, number))

    def _write(self, peer: _Peer, message: Message) -> None:
        if not peer.writer.is_closing():
            peer.writer.write(wire.encode_message(message))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now_s, patience_s = self.now_s, nursery_lease_s(self.lease_s)
            for peer in [*self._nurseries.values(), *self._returning.values()]:
                if peer.beats and now_s - peer.heard_s > patience_s:
                    self._silent(peer)
            self.perform(self.coordinator.tick(now_s))

    def _silent(self, peer: _Peer) -> None:
        """Give up a nursery that says nothing, with all workers of its node: nobody could start or end them."""
        peer.writer.transport.abort()
        self._forget_nursery(peer)
        if self._closing or self.coordinator.outcome is not None:
            return
        patience_s = nursery_lease_s(self.lease_s)
        text = f"node {peer.name} gave no sign of life for {patience_s:g} s; its workers count as lost"
        self.host.event({"type": "warned", "text": text})
        self.host.silent(peer.name)
        for worker in self._on(peer.name):
            if worker in self._workers:  # its process may be well; it must not go on all the same
                self._write(self._workers[worker], Refused(str(NODE_LOST)))
            self._lost(worker)

    def _forget_nursery(self, peer: _Peer) -> bool:
        """Whether it was this one that its node had."""
        for known in (self._nurseries, self._returning):
            if known.get(peer.name) is peer:
                del known[peer.name]
                return True
        return False

    def _on(self, node: str) -> list[str]:
        """Workers of a node that were started, or may have been."""
        alive = [worker.name for worker in self.coordinator.workers.values() if worker.alive]
        waiting = self._unspawned.get(node, ())
        return [name for name in alive if self.host.node_of(name) == node and name not in waiting]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: _Peer | None = None
        wire.watch_transport(writer)
        lines = LineReader(reader)
        try:
            role = await admit(lines, writer, self.tokens.of)
            if role == "client":
                peer = _Peer("client", "", writer)
            elif role is not None:
                peer = self._admit(role, await lines.next(), writer)
            while peer is not None and (line := await lines.next()):
                peer.heard_s = self.now_s
                self._hear(peer, line)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            # A line beyond the limit or without sense, or a connection that broke: each ends it.
            if peer is not None and not isinstance(error, OSError):
                self._complain(peer, error)
        finally:
            if peer is not None:
                self._gone(peer)
            writer.close()

    def _complain(self, peer: _Peer, error: Exception) -> None:
        """Say once per peer that it was not understood; it may come back as often as it likes."""
        if peer.name not in self._misunderstood:
            self._misunderstood.add(peer.name)
            text = f"a message of {peer.role} {peer.name} was not understood ({error})"
            self.host.event({"type": "warned", "text": text[:300]})

    def _admit(self, role: str, line: bytes, writer: asyncio.StreamWriter) -> _Peer | None:
        """A worker or nursery that has logged in and tells of itself."""
        hello = FROM_NURSERY.decode(line) if role == "nursery" else FROM_WORKER.decode(line)
        match hello:
            case NurseryHello(problem=str(problem)):
                self.problem = problem[:500]
            case NurseryHello():
                return self._admit_nursery(hello, writer)
            case WorkerHello():
                return self._admit_worker(hello, writer)
        return None

    def _admit_worker(self, hello: WorkerHello, writer: asyncio.StreamWriter) -> _Peer:
        self._left.pop(hello.worker, None)
        peer = self._workers[hello.worker] = _Peer("worker", hello.worker, writer)
        self.perform(self.coordinator.hello(hello, self.now_s))
        for news in self._book.all():
            self._write(peer, news)
        return peer

    def _admit_nursery(self, hello: NurseryHello, writer: asyncio.StreamWriter) -> _Peer:
        self._left.pop(_node_key(hello.node), None)
        peer, pids = _Peer("nursery", hello.node, writer, self.now_s, hello.beats), hello.pids
        self.addresses[peer.name] = (hello.host or str(writer.get_extra_info("peername")[0]))[:255]
        for known in (self._nurseries, self._returning):
            old = known.pop(peer.name, None)
            if old is not None:
                old.writer.close()
        if hello.note and peer.name not in self._met:
            self.host.event({"type": "warned", "text": hello.note[:300]})
        self._met.add(peer.name)
        self.pids.update(pids)
        workers = self.coordinator.workers
        peer.stale = {name for name in pids if name not in workers or not workers[name].alive}
        for name in peer.stale:
            self._write(peer, SendSignal(name))
        self._returning[peer.name] = peer
        self._count_if_clean(peer)
        return peer

    def _count_if_clean(self, peer: _Peer) -> None:
        """A nursery may start workers once it has none that were given up while it was away."""
        if not peer.stale and self._returning.get(peer.name) is peer:
            del self._returning[peer.name]
            self._nurseries[peer.name] = peer
            self._spawn_waiting()

    def _gone(self, peer: _Peer) -> None:
        later = asyncio.get_running_loop().call_later
        if peer.role == "nursery" and self._forget_nursery(peer):
            if self.cut_off(peer.name):
                self._left[_node_key(peer.name)] = peer
                later(self.lease_s, self._still_lost, peer)
            else:
                self._node_lost(peer.name)
        if peer.role == "worker" and self._workers.get(peer.name) is peer:
            del self._workers[peer.name]
            self._exited(peer.name)
            node = self.host.node_of(peer.name)
            if self.cut_off(node):
                self._left[peer.name] = peer
                later(self.lease_s, self._still_lost, peer)
                return
            if node in self._met and node not in self._nurseries and not self._closing:
                self._lost(peer.name)
            # A process that ended is announced by its nursery within milliseconds; only a lost machine is not.
            # To a supervisor that took the job over, the nursery itself may still be on its way.
            patience_s = UNCONFIRMED_S if node in self._met else RETURN_S
            later(patience_s, self._unconfirmed, peer.name)

    def _still_lost(self, peer: _Peer) -> None:
        """Whoever could not be heard has had its time to come back."""
        nursery = peer.role == "nursery"
        key = _node_key(peer.name) if nursery else peer.name
        if self._left.get(key) is peer:
            del self._left[key]
            if nursery:
                self._node_lost(peer.name)
            else:
                self._unconfirmed(peer.name)

    def _node_lost(self, node: str) -> None:
        """Workers do not outlive their nursery; those that talk to us are heard ending."""
        if self._closing or self.coordinator.outcome is not None:
            return
        for worker in self._on(node):
            if worker not in self._workers:
                self._lost(worker)

    def _lost(self, worker: str) -> None:
        if worker in self._reading:  # it had ended before
            self._reading[worker].cancel()
            self._take_exit(worker)
        else:
            self.perform(self.coordinator.exited(worker, NODE_LOST, self.now_s))

    def _unconfirmed(self, worker: str) -> None:
        if worker not in self._workers and self.host.node_of(worker) not in self._nurseries:
            self._lost(worker)

    def _hear(self, peer: _Peer, line: bytes) -> None:
        """A line of a peer; one of a type that only another version knows is named, and the next one heard."""
        try:
            if peer.role == "worker":
                self._hear_worker(peer.name, FROM_WORKER.decode(line))
            elif peer.role == "nursery":
                self._hear_nursery(peer, FROM_NURSERY.decode(line))
            else:
                self._hear_client(peer, line)
        except wire.UnknownTypeError as error:
            self._complain(peer, error)

    def _hear_client(self, peer: _Peer, line: bytes) -> None:
        try:
            self._write(peer, self._answer(FROM_CLIENT.decode(line)))
        except wire.UnknownTypeError as error:
            self._write(peer, NotUnderstood(str(error)))
        except wire.BadMessageError as error:
            self._write(peer, NotUnderstood(str(error)))
            raise

    def _hear_nursery(self, peer: _Peer, message: FromNursery) -> None:
        match message:
            case Started(worker, pid):
                self.pids[worker] = pid
                self.perform(self.coordinator.started(worker, self.now_s))
            case Exited(worker):
                peer.stale.discard(worker)
                self._count_if_clean(peer)
                self._exits[worker] = ExitCause.of_process(message.code, out_of_memory=message.out_of_memory)
                # Its last words may still be on their way: they are read before the end of its connection is.
                if worker in self._workers:
                    asyncio.get_running_loop().call_later(UNCONFIRMED_S, self._exited, worker)
                else:
                    self._exited(worker)
            case NurseryHello() | NurseryBeat():
                pass  # that it spoke is all it says

    def _exited(self, worker: str) -> None:
        """Take an exit in; the log of a worker that said nothing itself may still be on its way."""
        cause = self._exits.get(worker)
        if cause is None or worker in self._reading:
            return
        coming = self.host.log_comes(worker) if self._is_mute(worker, cause) else None
        if coming is None:
            self._take_exit(worker)
        else:
            self._reading[worker] = asyncio.create_task(self._read(worker, coming))

    def _is_mute(self, worker: str, cause: ExitCause) -> bool:
        """Whether only its log can say why a worker ended."""
        known = self.coordinator.workers.get(worker)
        return not cause.clean and known is not None and not known.seen_s

    async def _read(self, worker: str, coming: Awaitable[object]) -> None:
        await coming
        self._take_exit(worker)

    def _take_exit(self, worker: str) -> None:
        self._reading.pop(worker, None)
        cause = self._exits.pop(worker, None)
        if cause is not None:
            words = self.host.last_words(worker) if self._is_mute(worker, cause) else ""
            if words:
                self.coordinator.said_goodbye(worker, words)
            self.perform(self.coordinator.exited(worker, cause, self.now_s))

    def _answer(self, message: FromClient) -> ToClient:
        match message:
            case Resize(workers, drop):
                self.perform(self.coordinator.resize(workers, self.now_s, drop))
                return Ok(self.coordinator.target)
            case Place(places):
                self.host.place(places)
            case StopJob():
                self.perform(self.coordinator.stop(message.why, self.now_s))
            case SignalWorker(worker, number):
                self.signal(worker, number)
            case AskStatus():
                return self.status()
        return Ok()

    @property
    def nurseries(self) -> Collection[str]:
        """Nodes on which somebody is there who can start workers, or soon will."""
        return self._nurseries.keys() | self._returning.keys()

    def status(self) -> Status:
        """Describe the job's membership for a client."""
        return status_of(self.coordinator, self.pids, self.host.node_of)

    def _hear_worker(self, name: str, message: FromWorker) -> None:
        coordinator = self.coordinator
        if not isinstance(coordinator, Coordinator):
            return  # it was refused at its hello: workers of other jobs have nothing to tell
        match message:
            case Reported(event):
                if event.get("type") == "stepped":
                    coordinator.pace(seconds(event.get("step_s")))
                self.host.event(event)
            case Address():
                self._relay(name, message)
            case Goodbye(cause):
                coordinator.said_goodbye(name, cause)
            case _:
                self.perform(told(coordinator, name, message, self.now_s))

    def _relay(self, name: str, address: Address) -> None:
        """Pass a member's group address on to everybody in the same generation."""
        if self._book.take(address):
            for peer in self._workers.values():
                if peer.name != name:
                    self._write(peer, news_of(address))


def _node_key(node: str) -> str:
    """The name of a node where workers are named, too."""
    return f"node {node}"
