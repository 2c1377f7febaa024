"""The coordinator's ears and hands: connections, the clock, and the actions it asks for.

One asyncio loop per job, without PyTorch.  Workers and nurseries (the parents of workers) connect here with one
token, clients (the command line, the live system) with another.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from elastane.train.coordinator import wire
from elastane.train.coordinator.actions import Action, Emit, Finish, Kill, Record, Send, Signal, Spawn
from elastane.train.coordinator.contract import Decider
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.leases import LEASE_S, AwakeClock, nursery_lease_s
from elastane.train.coordinator.login_reader import BUFFER_BYTES, LineReader, Tokens, admit
from elastane.train.coordinator.plan_log import PlanLog
from elastane.train.coordinator.worker_places import LOCAL
from elastane.train.exit_cause import NODE_LOST, ExitCause, ExitKind

TICK_S = 0.25
UNCONFIRMED_S = 1.0
"""How long a broken connection may mean less than a death, when the process cannot be asked after."""
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
class Hooks:
    """What the owner of the server wants to hear or decide."""

    event: Callable[[Mapping[str, Any]], None]
    order: Callable[[str], Mapping[str, Any] | None]
    """The order (what to run, with what environment) for a new worker; None while that cannot be said yet."""
    place: Callable[[str], str] = lambda _worker: LOCAL
    """Chooses a node for a new worker."""
    node_of: Callable[[str], str] = lambda _worker: LOCAL
    """Where a worker is."""
    client: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = lambda _message: None
    """Answers messages of clients that the server does not know itself."""
    silent: Callable[[str], None] = lambda _node: None
    """Hears that the nursery of a node was given up because it fell silent."""
    last_words: Callable[[str], str] = lambda _worker: ""
    """Finds out what a worker that ended badly would have said, where workers cannot say it."""


@dataclass(slots=True)
class CoordinationServer:
    """Runs one coordinator until its job is over."""

    coordinator: Decider
    log: PlanLog
    tokens: Tokens
    hooks: Hooks
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    pids: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """Where nodes are reached by others, as their nurseries said."""
    lease_s: float = LEASE_S
    """How long a worker may be silent; nurseries a little less."""
    problem: str = ""
    """Why a nursery that was asked for cannot start workers, as it said itself."""
    _clock: AwakeClock = field(default_factory=AwakeClock)
    _workers: dict[str, _Peer] = field(default_factory=dict)
    _nurseries: dict[str, _Peer] = field(default_factory=dict)
    _returning: dict[str, _Peer] = field(default_factory=dict)
    _unspawned: dict[str, list[str]] = field(default_factory=dict)
    _exits: dict[str, ExitCause] = field(default_factory=dict)
    _blobs: dict[int, dict[int, str]] = field(default_factory=dict)
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
            self._write(peer, {"type": "stop"})
        deadline = time.monotonic() + STOP_S
        while self._nurseries and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        if self._ticker is not None:
            self._ticker.cancel()
        if self._server is not None:
            self._server.close()
        for peer in [*self._workers.values(), *self._nurseries.values()]:
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(peer.writer.drain(), 1.0)
            peer.writer.close()

    def perform(self, actions: list[Action]) -> None:
        """Carry out what the coordinator decided, in order."""
        # Who starts may have to be told where the others of its gang are, so all are placed first.
        for spawn in [action for action in actions if isinstance(action, Spawn)]:
            self.hooks.place(spawn.worker)
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case Record(entry):
                self.log.append(entry)
                if entry["type"] == "plan":
                    self._new_generation(entry["plan"])
            case Send(worker, message):
                if worker in self._workers:
                    self._write(self._workers[worker], message)
            case Spawn(worker):
                self._spawn(worker)
            case Kill(worker, why):
                self._kill(worker, why)
            case Signal(worker, number):
                self.signal(worker, number)
            case Emit(event):
                self.hooks.event(event)
            case Finish():
                self.finished.set()

    def _new_generation(self, plan: Mapping[str, Any]) -> None:
        self._blobs = {g: blobs for g, blobs in self._blobs.items() if g >= plan["generation"] - 2}
        self._blobs[plan["generation"]] = {}

    def _spawn(self, worker: str) -> None:
        node = self.hooks.node_of(worker)
        nursery = self._nurseries.get(node)
        order = self.hooks.order(worker) if nursery is not None else None
        if nursery is None or order is None:
            self._unspawned.setdefault(node, []).append(worker)
        else:
            self._write(nursery, {"type": "spawn", "order": dict(order)})

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
            self._write(self._workers[worker], {"type": "refused", "cause": why})
        nursery = self._nurseries.get(self.hooks.node_of(worker))
        if nursery is not None:
            self._write(nursery, {"type": "kill", "worker": worker})

    def signal(self, worker: str, number: int) -> None:
        """Send a signal to a worker's process."""
        nursery = self._nurseries.get(self.hooks.node_of(worker))
        if nursery is not None:
            self._write(nursery, {"type": "kill", "worker": worker, "signal": number})

    def _write(self, peer: _Peer, message: Mapping[str, Any]) -> None:
        if not peer.writer.is_closing():
            peer.writer.write(wire.encode(message))

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
        self.hooks.event({"type": "warned", "text": text})
        self.hooks.silent(peer.name)
        for worker in self._on(peer.name):
            if worker in self._workers:  # its process may be well; it must not go on all the same
                self._write(self._workers[worker], {"type": "refused", "cause": str(NODE_LOST)})
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
        return [name for name in alive if self.hooks.node_of(name) == node and name not in waiting]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: _Peer | None = None
        wire.watch_transport(writer)
        lines = LineReader(reader)
        try:
            role = await admit(lines, writer, self.tokens.of)
            if role == "client":
                peer = _Peer("client", "", writer)
            elif role is not None and (hello := wire.decode(await lines.next())) is not None:
                peer = self._admit(role, hello, writer)
            while peer is not None and (line := await lines.next()):
                message = wire.decode(line)
                if message is None:
                    break
                peer.heard_s = self.now_s
                self._hear(peer, message)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
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
            text = f"a message of {peer.role} {peer.name} was not understood ({error!r})"
            self.hooks.event({"type": "warned", "text": text[:300]})

    def _admit(self, role: str, message: Mapping[str, Any], writer: asyncio.StreamWriter) -> _Peer | None:
        """A worker or nursery that has logged in and tells of itself."""
        if message["type"] != "hello":
            return None
        if role == "nursery" and "problem" in message:
            self.problem = str(message["problem"])[:500]
            return None
        if role == "nursery":
            return self._admit_nursery(message, writer)
        peer = self._workers[str(message["worker"])] = _Peer(role, str(message["worker"]), writer)
        self.perform(self.coordinator.hello(peer.name, message, self.now_s))
        for generation, blobs in self._blobs.items():
            for rank, data in blobs.items():
                self._write(peer, {"type": "peer", "generation": generation, "rank": rank, "data": data})
        return peer

    def _admit_nursery(self, message: Mapping[str, Any], writer: asyncio.StreamWriter) -> _Peer:
        peer = _Peer("nursery", str(message["node"]), writer, self.now_s, bool(message.get("beats")))
        pids = {str(name): int(pid) for name, pid in message.get("pids", {}).items()}
        self.addresses[peer.name] = str(message.get("host") or writer.get_extra_info("peername")[0])[:255]
        for known in (self._nurseries, self._returning):
            old = known.pop(peer.name, None)
            if old is not None:
                old.writer.close()
        self._met.add(peer.name)
        self.pids.update(pids)
        workers = self.coordinator.workers
        peer.stale = {name for name in pids if name not in workers or not workers[name].alive}
        for name in peer.stale:
            self._write(peer, {"type": "kill", "worker": name})
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
        if peer.role == "nursery" and self._forget_nursery(peer):
            self._node_lost(peer.name)
        if peer.role == "worker" and self._workers.get(peer.name) is peer:
            del self._workers[peer.name]
            self._exited(peer.name)
            node = self.hooks.node_of(peer.name)
            if node in self._met and node not in self._nurseries and not self._closing:
                self._lost(peer.name)
            # A process that ended is announced by its nursery within milliseconds; only a lost machine is not.
            # To a supervisor that took the job over, the nursery itself may still be on its way.
            patience_s = UNCONFIRMED_S if node in self._met else RETURN_S
            asyncio.get_running_loop().call_later(patience_s, self._unconfirmed, peer.name)

    def _node_lost(self, node: str) -> None:
        """Workers do not outlive their nursery; those that talk to us are heard ending."""
        if self._closing or self.coordinator.outcome is not None:
            return
        for worker in self._on(node):
            if worker not in self._workers:
                self._lost(worker)

    def _lost(self, worker: str) -> None:
        self.perform(self.coordinator.exited(worker, NODE_LOST, self.now_s))

    def _unconfirmed(self, worker: str) -> None:
        if worker not in self._workers and self.hooks.node_of(worker) not in self._nurseries:
            self._lost(worker)

    def _hear(self, peer: _Peer, message: Mapping[str, Any]) -> None:
        if peer.role == "worker":
            self._hear_worker(peer.name, message)
        elif peer.role == "nursery":
            self._hear_nursery(peer, message)
        else:
            self._hear_client(peer, message)

    def _hear_nursery(self, peer: _Peer, message: Mapping[str, Any]) -> None:
        if message["type"] == "beat":
            return
        worker = str(message["worker"])
        if message["type"] == "started":
            self.pids[worker] = int(message["pid"])
            self.perform(self.coordinator.started(worker, self.now_s))
        elif message["type"] == "exited":
            peer.stale.discard(worker)
            self._count_if_clean(peer)
            no_memory = message.get("out_of_memory") is True  # earlier versions do not say
            self._exits[worker] = ExitCause.of_process(int(message["code"]), out_of_memory=no_memory)
            # Its last words may still be on their way: they are read before the end of its connection is.
            if worker in self._workers:
                asyncio.get_running_loop().call_later(UNCONFIRMED_S, self._exited, worker)
            else:
                self._exited(worker)

    def _exited(self, worker: str) -> None:
        cause = self._exits.pop(worker, None)
        if cause is not None:
            known = self.coordinator.workers.get(worker)
            unheard = known is not None and not known.seen_s
            words = self.hooks.last_words(worker) if not cause.clean and unheard else ""
            if words:
                self.coordinator.said_goodbye(worker, words)
            self.perform(self.coordinator.exited(worker, cause, self.now_s))

    def _hear_client(self, peer: _Peer, message: Mapping[str, Any]) -> None:
        answer: Mapping[str, Any] | None
        if message["type"] == "resize":
            drop = [str(name) for name in message.get("drop", [])]
            self.perform(self.coordinator.resize(int(message["workers"]), self.now_s, drop))
            answer = {"type": "ok", "workers": self.coordinator.target}
        elif message["type"] == "stop":
            self.perform(self.coordinator.stop(_asked_to_stop(message), self.now_s))
            answer = {"type": "ok"}
        elif message["type"] == "signal":
            self.signal(str(message["worker"]), int(message["signal"]))
            answer = {"type": "ok"}
        elif message["type"] == "status":
            answer = {"type": "status", **self.status()}
        else:
            answer = self.hooks.client(message)
        self._write(peer, answer or {"type": "unknown", "cause": f"no such request: {message['type']}"})

    @property
    def nurseries(self) -> Collection[str]:
        """Nodes on which somebody is there who can start workers, or soon will."""
        return self._nurseries.keys() | self._returning.keys()

    def status(self) -> dict[str, Any]:
        """The job's membership as JSON values."""
        plan = self.coordinator.current
        return {
            "generation": plan.generation if plan else 0,
            "members": list(plan.members) if plan else [],
            "target": self.coordinator.target,
            "step": self.coordinator.step,
            "workers": {
                worker.name: {
                    "phase": worker.phase.value,
                    "pid": self.pids.get(worker.name),
                    "node": self.hooks.node_of(worker.name),
                    "step": worker.beat.step,
                    "doing": worker.beat.doing,
                }
                for worker in self.coordinator.workers.values()
                if worker.alive
            },
        }

    def _hear_worker(self, name: str, message: Mapping[str, Any]) -> None:
        told = self.coordinator
        if not isinstance(told, Coordinator):
            return  # it was refused at its hello: workers of other jobs have nothing to tell
        match message["type"]:
            case "report":
                event = message["event"]
                if event.get("type") == "stepped":
                    told.pace(float(event.get("step_s") or 0.0))
                self.hooks.event(event)
            case "blob":
                self._relay(name, message)
            case "goodbye":
                told.said_goodbye(name, str(message["cause"]))
            case _:
                self.perform(self._told(told, name, message))

    def _told(self, told: Coordinator, name: str, message: Mapping[str, Any]) -> list[Action]:
        now = self.now_s
        generation = int(message.get("generation", 0))
        match message["type"]:
            case "beat":
                used = message.get("cpu_s")
                cpu_s = None if used is None else float(used)
                return told.beat(name, int(message["step"]), str(message["doing"]), now, cpu_s)
            case "ready":
                return told.ready(name, message["signature"], str(message["stream"]), now)
            case "built":
                return told.built(name, generation, now)
            case "caught_up":
                return told.caught_up(name, generation, now)
            case "lagging":
                return told.lagging(name, generation, str(message["why"]), now)
            case "apart":
                return told.apart(name, generation, str(message["why"])[:500], now)
            case "entered":
                return told.entered(name, generation, int(message["step"]), now)
            case "failed":
                return told.failed(name, generation, message["applied"], str(message["why"]), now)
            case "left":
                return told.left(name, now)
            case "leave":
                return told.resize(told.target, now, [name])
            case "done":
                return told.done(name, int(message["step"]), now)
        return []

    def _relay(self, name: str, message: Mapping[str, Any]) -> None:
        """Pass a member's group address on to everybody in the same generation."""
        generation, rank, data = int(message["generation"]), int(message["rank"]), str(message["data"])
        if generation in self._blobs:
            self._blobs[generation][rank] = data
            news = {"type": "peer", "generation": generation, "rank": rank, "data": data}
            for peer in self._workers.values():
                if peer.name != name:
                    self._write(peer, news)


def _asked_to_stop(message: Mapping[str, Any]) -> ExitCause:
    """Why a client wants the job to end: for good, unless it says that it is to go on later."""
    suspends = message.get("kind") == ExitKind.SUSPENDED.value
    kind = ExitKind.SUSPENDED if suspends else ExitKind.CANCELLED
    return ExitCause(kind, detail=str(message.get("cause", "asked to stop")))
