"""Runs one job on this machine: coordinator, fork server, journal, and whatever the owner wants to happen to it.

It is what ``elastane train`` starts, and what the live system starts for each job.  It holds no training state:
when it is killed, training goes on, and a new supervisor on the same run adopts the workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from elastane import __version__
from elastane.train.coordinator.actions import Finish
from elastane.train.coordinator.contract import Decider
from elastane.train.coordinator.control_file import Control, ControlFile
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.gang_coordinator import Meeting, PlainCoordinator
from elastane.train.coordinator.last_words import last_words
from elastane.train.coordinator.launch_order import JobOptions as JobOptions
from elastane.train.coordinator.launch_order import LaunchOrders
from elastane.train.coordinator.leader_output import LeaderEcho
from elastane.train.coordinator.login_reader import Tokens
from elastane.train.coordinator.messages import Status
from elastane.train.coordinator.plan_entries import Entry, WorkerPlaced
from elastane.train.coordinator.plan_log import PlanLog
from elastane.train.coordinator.ports import free_port
from elastane.train.coordinator.script_kind import JobKind
from elastane.train.coordinator.script_runner import Order
from elastane.train.coordinator.scripted_events import Wish, grant, grant_all
from elastane.train.coordinator.server import CoordinationServer
from elastane.train.coordinator.spawners import ForkServers, OwnForkServer
from elastane.train.coordinator.startup_notices import WarmingWatch
from elastane.train.coordinator.worker_places import LOCAL, Places
from elastane.train.errors import TrainError
from elastane.train.exit_cause import cancelled
from elastane.train.reports.event_file import FILE_NAME, Journal
from elastane.train.reports.events import Ended, Event, Saved, Started, from_json

GRACE_S = 10.0
"""How long workers may take to leave once the job is over."""


class Supervisor:
    """One job, from start to end."""

    def __init__(
        self,
        options: JobOptions,
        show: Callable[[Event], None],
        echo: Callable[[str], None] | None,
        fork_servers: ForkServers | None = None,
    ) -> None:
        self.options = options
        self._records = options.records or options.run
        self._show = show
        from_start = options.kind is not JobKind.ADAPTIVE
        self._echo = LeaderEcho(options.log_of, echo, from_start=from_start) if echo is not None else None
        self._control = ControlFile(self._records)
        self._tokens = Tokens()
        self._port = 0
        self._fork_servers = fork_servers or OwnForkServer(options.run)
        self._places = Places(options.places or {LOCAL: options.settings.workers})
        self._journal: Journal | None = None
        self._server: CoordinationServer | None = None
        self._began_s = time.time()
        self._interrupted = 0
        self._saved = 0
        """Step of the last checkpoint; members say less often how far they are."""
        self.granted_all = False

    async def run(self, *, adopt: bool = False) -> Ended:
        """Until the job is over; leaves no process behind."""
        run = self.options.run
        (run / "logs").mkdir(parents=True, exist_ok=True)
        self._records.mkdir(parents=True, exist_ok=True)
        log = PlanLog(self._records / "plans.jsonl")
        self._journal = Journal(self._records / FILE_NAME)
        coordinator = self._coordinator(log, adopt=adopt)
        port = self._remembered(adopt=adopt)
        lease_s, cut_off = self.options.settings.lease_s, self._fork_servers.cut_off
        server = CoordinationServer(coordinator, log, self._tokens, self, lease_s, cut_off)
        self._server = server
        self._port = await server.open(self.options.host, port)
        self._remember()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        tasks = [asyncio.create_task(work) for work in (self._echo_logs(), self._grant_wishes())]
        try:
            if not adopt:
                self._ask_for_fork_servers(server)
                self._announce()
                server.perform(coordinator.start(server.now_s))
            elif coordinator.outcome is not None:  # all that is left to do is to clear up
                server.finished.set()
            await self._until_over(server)
        finally:
            for task in tasks:
                task.cancel()
            await self._clear_up(server, log)
        return self._ended(coordinator)

    # Setting up.

    def _coordinator(self, log: PlanLog, *, adopt: bool) -> Decider:
        entries = list(log.entries())
        for entry in entries:
            if isinstance(entry, WorkerPlaced):
                self._places.remember(entry.worker, entry.node)
        if self.options.kind is not JobKind.ADAPTIVE:
            return self._plain(entries, adopt=adopt)
        if adopt:
            return Coordinator.adopt(self.options.settings, entries, time.monotonic())
        return Coordinator.after(self.options.settings, entries)

    def _plain(self, entries: Sequence[Entry], *, adopt: bool) -> PlainCoordinator:
        options = self.options
        if adopt:
            raise TrainError(f"--adopt: a {options.kind} job cannot be taken over, only an adaptive one")
        chance = random.SystemRandom()  # jobs that start together must not choose alike
        port = partial(free_port, options.host, chance)
        meeting = Meeting(options.run.name, self._address_of, port, self._places.node_of, options.told_alone)
        coordinator = PlainCoordinator(options.settings, options.kind is JobKind.RESIZABLE, meeting)
        coordinator.resume(entries)
        return coordinator

    def _address_of(self, node: str) -> str:
        return self._server.addresses.get(node, "") if self._server is not None else ""

    # What the server asks (``Host``).

    def node_of(self, worker: str) -> str:
        """Where a worker is."""
        return self._places.node_of(worker)

    def silent(self, node: str) -> None:
        """The fork server of a node was given up: it is ended before another is started there."""
        self._fork_servers.lost(node)

    def log_comes(self, worker: str) -> Awaitable[object] | None:
        """What to wait for before the log of a worker on another machine is read."""
        return self._fork_servers.log_comes(self.node_of(worker))

    def last_words(self, worker: str) -> str:
        """What the log of a worker ends with."""
        return last_words(self.options.log_of(worker))

    def choose_node(self, worker: str) -> str:
        """Find a node for a new worker; it is on disk before anything runs there."""
        assert self._server is not None
        coordinator = self._server.coordinator
        if self._places.total != coordinator.target:
            self._places.resize(coordinator.target)
        node = self._places.assign(worker, coordinator.staying)
        self._server.log.append(WorkerPlaced(worker, node))
        return node

    def place(self, places: Mapping[str, int]) -> None:
        """So many workers on these nodes from now on."""
        server = self._server
        assert server is not None
        leaving = self._places.change(places, server.coordinator.staying)
        self._ask_for_fork_servers(server)
        server.perform(server.coordinator.resize(self._places.total, server.now_s, leaving))

    def _remembered(self, *, adopt: bool) -> int:
        """The port to listen at: that of the supervisor before, whose tokens are taken over; 0 is any."""
        if not adopt:
            return 0
        try:
            known = self._control.read()
        except (OSError, ValueError) as error:
            raise TrainError(f"{self.options.run} has no running job to take over: {error}") from error
        self._tokens = known.tokens
        return known.port

    def _remember(self) -> None:
        self._control.write(Control(self.options.host, self._port, self._tokens))

    def _ask_for_fork_servers(self, server: CoordinationServer) -> None:
        """Wherever workers are wanted and nobody is there who could start them."""
        for node in self._places.wanted:
            if node not in server.fork_servers:
                self._fork_servers.ask(node, self._orders.parentage())

    def order(self, worker: str) -> Order | None:
        """What a new worker is to run; None while the others of its gang could not be told where to meet."""
        assert self._server is not None
        return self._orders.order(worker, self.node_of(worker), self._server.coordinator)

    @property
    def _orders(self) -> LaunchOrders:
        return LaunchOrders(self.options, f"{self.options.host}:{self._port}", self._tokens.workers)

    # While it runs.

    async def _until_over(self, server: CoordinationServer) -> None:
        over = asyncio.create_task(server.finished.wait())
        adopted_by_s = time.monotonic() + self.options.settings.lease_s
        clock = asyncio.get_running_loop().time
        warming = WarmingWatch(clock())
        while not over.done():
            await asyncio.wait({over}, timeout=0.5)
            if isinstance(server.coordinator, Coordinator):
                event = warming.look(server.coordinator, clock(), time.time())
                if event is not None:
                    self._tell(event)
            if time.monotonic() > adopted_by_s:  # before that, those we take over may still come back
                self._ask_for_fork_servers(server)
            problem = server.problem or self._fork_servers.problem()
            if problem and not over.done():
                over.cancel()  # workers that are left end with their fork server, or are ended by it
                raise TrainError(f"workers cannot be started: {problem}")
        deadline = time.monotonic() + GRACE_S
        while self._processes(server) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    def _processes(self, server: CoordinationServer) -> list[int]:
        """Of workers that are still there, as far as they have been started."""
        alive = [worker.name for worker in server.coordinator.workers.values() if worker.alive]
        return [server.pids[name] for name in alive if name in server.pids]

    async def _clear_up(self, server: CoordinationServer, log: PlanLog) -> None:
        await server.close()
        await self._fork_servers.end()
        self._echo_new()
        if self._echo is not None:
            self._echo.finish()
        log.close()
        self._control.remove()

    def _ended(self, coordinator: Decider) -> Ended:
        outcome = coordinator.outcome or Finish(cancelled("interrupted"))
        now = time.time()
        ended = Ended(
            now,
            outcome.outcome,
            outcome.cause,
            max(coordinator.step, self._saved),
            now - self._began_s,
            outcome.exit,
        )
        self._tell(ended)
        if self._journal is not None:
            self._journal.close()
        return ended

    def _announce(self) -> None:
        """Say that a plain job begins; an adaptive one says so itself, once it knows its batch."""
        options = self.options
        if options.kind is not JobKind.ADAPTIVE:
            script = options.script if options.module else Path(options.script or options.program[0]).name
            facts = {"elastane": __version__}
            workers = options.settings.workers
            self._tell(Started(time.time(), str(options.run), script, options.kind.value, workers, 0, 0, facts))

    def event(self, values: Mapping[str, Any]) -> None:
        """Report an event; what is none is passed over."""
        with contextlib.suppress(ValueError):
            event = from_json({"at_s": time.time(), **values})
            if event is not None:
                self._tell(event)

    def happened(self, event: Event) -> None:
        """Report an event of our own, as of now."""
        self._tell(replace(event, at_s=time.time()))

    def _tell(self, event: Event) -> None:
        if isinstance(event, Saved):
            self._saved = event.step
        if self._journal is not None:
            self._journal.write(event)
        self._show(event)

    def _interrupt(self) -> None:
        self._interrupted += 1
        server = self._server
        if server is None:
            return
        if self._interrupted == 1:
            server.perform(server.coordinator.stop(cancelled("interrupted"), server.now_s))
            if server.coordinator.current is None:
                server.finished.set()
        else:
            server.finished.set()

    async def _grant_wishes(self) -> None:
        assert self._server is not None
        await grant_all(self._server, self.options.wishes, random.Random(self.options.seed))
        self.granted_all = True

    @property
    def spoken_to(self) -> bool:
        """Whether this plain job turned out to be an adaptive one."""
        coordinator = self._server.coordinator if self._server is not None else None
        return isinstance(coordinator, PlainCoordinator) and coordinator.spoken_to

    def status(self) -> Status | None:
        """The job's membership; None before it is served."""
        return self._server.status() if self._server is not None else None

    def workers_by_node(self) -> Mapping[str, int]:
        """Workers on each node: as many as are wanted there, or are there, whichever is more."""
        status = self.status()
        there = Counter(facts.node for facts in status.workers.values()) if status else Counter[str]()
        return {
            node: max(there[node], self._places.wanted.get(node, 0)) for node in {*there, *self._places.wanted}
        }

    @property
    def settled(self) -> bool:
        """Whether as many workers train as are wanted, and no change is under way."""
        return self._server is not None and self._server.coordinator.settled

    def grant(self, wish: Wish, chance: random.Random) -> str | None:
        """Resize, or break something on purpose; returns the worker that was hit."""
        assert self._server is not None
        return grant(self._server, wish, chance)

    async def _echo_logs(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            self._echo_new()

    def _echo_new(self) -> None:
        """Pass on what the leader's script has printed."""
        if self._server is not None and self._echo is not None:
            coordinator = self._server.coordinator
            plan = coordinator.current
            self._echo.look(plan.members[0] if plan else next(iter(coordinator.workers), None))
