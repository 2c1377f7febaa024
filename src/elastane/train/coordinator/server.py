"""Serves one coordinator: accepts connections, tells it what is said and what time it is, performs its actions.

One asyncio loop per job, without PyTorch.  Workers and fork servers (the parents of workers) connect here with one
token, clients (the command line, the live system) with another.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection

from elastane.train.coordinator import wire
from elastane.train.coordinator.actions import UNTIMED_S, Action, Emit, Finish, Kill, Record, Send, Signal
from elastane.train.coordinator.actions import Spawn as SpawnWorker
from elastane.train.coordinator.address_book import AddressBook, news_of
from elastane.train.coordinator.contract import Decider
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.hear_worker import seconds, told
from elastane.train.coordinator.host import Host
from elastane.train.coordinator.leases import LEASE_S, AwakeClock
from elastane.train.coordinator.login_reader import BUFFER_BYTES, LineReader, Tokens, admit
from elastane.train.coordinator.membership_status import status_of
from elastane.train.coordinator.messages import (
    FROM_CLIENT,
    FROM_FORK_SERVER,
    FROM_WORKER,
    Address,
    AskStatus,
    Exited,
    ForkServerBeat,
    ForkServerHello,
    FromClient,
    FromForkServer,
    FromWorker,
    Goodbye,
    NotUnderstood,
    Ok,
    Place,
    Reported,
    Resize,
    SendSignal,
    SignalWorker,
    Started,
    Status,
    StopForkServer,
    StopJob,
    ToClient,
    WorkerHello,
)
from elastane.train.coordinator.peers import ForkServerTable, Peer
from elastane.train.coordinator.plan_entries import PlanMade
from elastane.train.coordinator.plan_log import PlanLog
from elastane.train.coordinator.spawning import Spawning
from elastane.train.coordinator.worker_ends import WorkerEnds
from elastane.train.reports.events import Warned

TICK_S = 0.25
STOP_S = 5.0
"""How long fork servers may take to end their workers and themselves."""


class CoordinationServer:
    """Runs one coordinator until its job is over."""

    def __init__(
        self,
        coordinator: Decider,
        log: PlanLog,
        tokens: Tokens,
        host: Host,
        lease_s: float = LEASE_S,
        cut_off: Callable[[str], bool] = lambda _node: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A worker may be silent for ``lease_s``, fork servers a little less.

        ``cut_off`` says whether the way to a node is interrupted while all may be well there: who is gone then has a
        lease to come back.
        """
        self.coordinator = coordinator
        self.log = log
        self.tokens = tokens
        self.host = host
        self.finished = asyncio.Event()
        self.pids: dict[str, int] = {}
        self.addresses: dict[str, str] = {}
        """Where nodes are reached by others, as their fork servers said."""
        self.problem = ""
        """Why a fork server that was asked for cannot start workers, as it said itself."""
        self._clock = AwakeClock(clock)
        self._workers: dict[str, Peer] = {}
        self._fork_servers = ForkServerTable()
        self._spawning = Spawning(host, self._fork_servers, self._workers)
        self._ends = WorkerEnds(
            coordinator,
            host,
            self._clock,
            self._workers,
            self._fork_servers,
            self._spawning,
            self.perform,
            lease_s,
            cut_off,
        )
        self._book = AddressBook()
        self._misunderstood: set[str] = set()
        self._server: asyncio.Server | None = None
        self._ticker: asyncio.Task[None] | None = None

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
        """Stop fork servers (and with them every worker that is left), then listening."""
        self._ends.close()
        for peer in self._fork_servers.all:
            peer.write(StopForkServer())
        deadline = time.monotonic() + STOP_S
        while self._fork_servers.ready and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        self._ends.stop_reading()
        if self._ticker is not None:
            self._ticker.cancel()
        if self._server is not None:
            self._server.close()
        for peer in [*self._workers.values(), *self._fork_servers.ready.values()]:
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
                if isinstance(entry, PlanMade):
                    self._book.begin(entry.plan.generation)
            case Send(worker, message):
                if worker in self._workers:
                    self._workers[worker].write(message)
            case SpawnWorker(worker):
                self._spawning.spawn(worker)
            case Kill(worker, why):
                self._spawning.kill(worker, why)
            case Signal(worker, number):
                self.signal(worker, number)
            case Emit(event):
                self.host.happened(event)
            case Finish():
                self.finished.set()

    def signal(self, worker: str, number: int) -> None:
        """Send a signal to a worker's process."""
        self._spawning.signal(worker, number)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now_s = self.now_s
            self._ends.look_for_silence(now_s)
            self.perform(self.coordinator.tick(now_s))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: Peer | None = None
        wire.watch_transport(writer)
        lines = LineReader(reader)
        try:
            role = await admit(lines, writer, self.tokens.of)
            if role == "client":
                peer = Peer("client", "", writer)
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
                self._ends.gone(peer)
            writer.close()

    def _complain(self, peer: Peer, error: Exception) -> None:
        """Say once per peer that it was not understood; it may come back as often as it likes."""
        if peer.name not in self._misunderstood:
            self._misunderstood.add(peer.name)
            text = f"a message of {peer.role} {peer.name} was not understood ({error})"
            self.host.happened(Warned(UNTIMED_S, text[:300]))

    def _admit(self, role: str, line: bytes, writer: asyncio.StreamWriter) -> Peer | None:
        """A worker or fork server that has logged in and tells of itself."""
        hello = FROM_FORK_SERVER.decode(line) if role == "nursery" else FROM_WORKER.decode(line)
        match hello:
            case ForkServerHello(problem=str(problem)):
                self.problem = problem[:500]
            case ForkServerHello():
                return self._admit_fork_server(hello, writer)
            case WorkerHello():
                return self._admit_worker(hello, writer)
        return None

    def _admit_worker(self, hello: WorkerHello, writer: asyncio.StreamWriter) -> Peer:
        peer = self._workers[hello.worker] = Peer("worker", hello.worker, writer)
        self._ends.came_back(peer)
        self.perform(self.coordinator.hello(hello, self.now_s))
        for news in self._book.all():
            peer.write(news)
        return peer

    def _admit_fork_server(self, hello: ForkServerHello, writer: asyncio.StreamWriter) -> Peer:
        peer = Peer("nursery", hello.node, writer, self.now_s, hello.beats)
        self._ends.came_back(peer)
        self.addresses[peer.name] = (hello.host or str(writer.get_extra_info("peername")[0]))[:255]
        if self._fork_servers.admit(peer) and hello.note:
            self.host.happened(Warned(UNTIMED_S, hello.note[:300]))
        self.pids.update(hello.pids)
        workers = self.coordinator.workers
        peer.stale = {name for name in hello.pids if name not in workers or not workers[name].alive}
        for name in peer.stale:
            peer.write(SendSignal(name))
        self._count_if_clean(peer)
        return peer

    def _count_if_clean(self, peer: Peer) -> None:
        if self._fork_servers.counts_now(peer):
            self._spawning.spawn_waiting()

    def _hear(self, peer: Peer, line: bytes) -> None:
        """A line of a peer; one of a type that only another version knows is named, and the next one heard."""
        try:
            if peer.role == "worker":
                self._hear_worker(peer.name, FROM_WORKER.decode(line))
            elif peer.role == "nursery":
                self._hear_fork_server(peer, FROM_FORK_SERVER.decode(line))
            else:
                self._hear_client(peer, line)
        except wire.UnknownTypeError as error:
            self._complain(peer, error)

    def _hear_client(self, peer: Peer, line: bytes) -> None:
        try:
            peer.write(self._answer(FROM_CLIENT.decode(line)))
        except wire.UnknownTypeError as error:
            peer.write(NotUnderstood(str(error)))
        except wire.BadMessageError as error:
            peer.write(NotUnderstood(str(error)))
            raise

    def _hear_fork_server(self, peer: Peer, message: FromForkServer) -> None:
        match message:
            case Started(worker, pid):
                self.pids[worker] = pid
                self.perform(self.coordinator.started(worker, self.now_s))
            case Exited(worker):
                peer.stale.discard(worker)
                self._count_if_clean(peer)
                self._ends.announced(message)
            case ForkServerHello() | ForkServerBeat():
                pass  # that it spoke is all it says

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
    def fork_servers(self) -> Collection[str]:
        """Nodes on which somebody is there who can start workers, or soon will."""
        return self._fork_servers.nodes

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
                    peer.write(news_of(address))
