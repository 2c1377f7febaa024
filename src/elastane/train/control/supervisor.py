"""Runs one job on this machine: coordinator, nursery, journal, and whatever the owner wants to happen to it.

It is what ``elastane train`` starts, and what the live system starts for each job.  It holds no training state:
when it is killed, training goes on, and a new supervisor on the same run adopts the workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastane import __version__
from elastane.train.control.coordinator import Coordinator, Settings
from elastane.train.control.decider import Decider
from elastane.train.control.echo import LeaderEcho
from elastane.train.control.journal import PlanLog
from elastane.train.control.kinds import JobKind
from elastane.train.control.last_words import last_words
from elastane.train.control.nursery import ENDPOINT, NODE, PRELOAD, TOKEN
from elastane.train.control.plain import Meeting, PlainCoordinator
from elastane.train.control.ports import free_port
from elastane.train.control.runner import Order
from elastane.train.control.server import CoordinationServer, Hooks
from elastane.train.errors import TrainError
from elastane.train.reports.events import Ended, Event, Started, from_json
from elastane.train.reports.journal import FILE_NAME, Journal

GRACE_S = 10.0
"""How long workers may take to leave once the job is over."""
CONTROL_FILE = "control.json"
_NURSERY = ("-m", "elastane.train.control.nursery")
_COLD_NURSERY = ("-c", "from elastane.train.control.nursery import Nursery; Nursery().serve()")


@dataclass(frozen=True, slots=True)
class Wish:
    """Something to be done ``at`` seconds after training began, or once it has made ``at`` steps."""

    at: float
    action: str
    """``resize``, ``kill``, ``kill-leader`` or ``stop`` (freeze)."""
    workers: int = 0
    steps: bool = False
    settled: bool = False
    """Not before the last change of members is complete."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What to run and how."""

    script: str
    arguments: tuple[str, ...] = ()
    run: Path = Path("runs/job")
    settings: Settings = field(default_factory=Settings)
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path = Path()
    module: bool = False
    threads: int = 1
    preload: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    wishes: tuple[Wish, ...] = ()
    seed: int = 0
    warm_nice: int = 5
    kind: JobKind = JobKind.ADAPTIVE


class Supervisor:
    """One job, from start to end."""

    def __init__(self, options: JobOptions, show: Callable[[Event], None], echo: Callable[[str], None]) -> None:
        self.options = options
        self._show = show
        self._echo = LeaderEcho(self._log_of, echo, from_start=options.kind is not JobKind.ADAPTIVE)
        self._token = ""
        self._port = 0
        self._nursery: subprocess.Popen[bytes] | None = None
        self._journal: Journal | None = None
        self._server: CoordinationServer | None = None
        self._began_s = time.time()
        self._interrupted = 0
        self.granted_all = False

    async def run(self, *, adopt: bool = False) -> Ended:
        """Until the job is over; leaves no process behind."""
        run = self.options.run
        (run / "logs").mkdir(parents=True, exist_ok=True)
        log = PlanLog(run / "plans.jsonl")
        self._journal = Journal(run / FILE_NAME)
        coordinator = self._coordinator(log, adopt=adopt)
        port = self._remembered(adopt=adopt)
        server = CoordinationServer(coordinator, log, self._token, self._hooks(coordinator))
        self._server = server
        self._port = await server.open(self.options.host, port)
        self._remember()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        tasks = [asyncio.create_task(work) for work in (self._echo_logs(), self._grant_wishes())]
        try:
            if not adopt:
                self._start_nursery()
                self._announce()
                server.perform(coordinator.start(loop.time()))
            await self._until_over(server)
        finally:
            for task in tasks:
                task.cancel()
            await self._clear_up(server, log)
        return self._ended(coordinator)

    # Setting up.

    def _coordinator(self, log: PlanLog, *, adopt: bool) -> Decider:
        entries = list(log.entries())
        if self.options.kind is not JobKind.ADAPTIVE:
            return self._plain(entries, adopt=adopt)
        if adopt:
            return Coordinator.adopt(self.options.settings, entries, asyncio.get_running_loop().time())
        return Coordinator.after(self.options.settings, entries)

    def _plain(self, entries: Sequence[Mapping[str, Any]], *, adopt: bool) -> PlainCoordinator:
        options = self.options
        if adopt:
            raise TrainError(f"--adopt: a {options.kind} job cannot be taken over, only an adaptive one")
        chance = random.SystemRandom()  # jobs that start together must not choose alike
        meeting = Meeting(options.run.name, options.host, lambda: free_port(options.host, chance))
        coordinator = PlainCoordinator(options.settings, options.kind is JobKind.RESIZABLE, meeting)
        coordinator.resume(entries)
        return coordinator

    def _hooks(self, coordinator: Decider) -> Hooks:
        hooks = Hooks(event=self._event, order=self._order)
        if isinstance(coordinator, PlainCoordinator):
            hooks.started = self._plain_started
            hooks.last_words = lambda worker: last_words(self._log_of(worker))
        return hooks

    def _plain_started(self, worker: str) -> None:
        server = self._server
        assert server is not None
        assert isinstance(server.coordinator, PlainCoordinator)
        server.perform(server.coordinator.started(worker, asyncio.get_running_loop().time()))

    def _log_of(self, worker: str) -> Path:
        return self.options.run / "logs" / f"{worker}.log"

    def _remembered(self, *, adopt: bool) -> int:
        path = self.options.run / CONTROL_FILE
        if not adopt:
            self._token = secrets.token_hex(16)
            return 0
        try:
            known = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise TrainError(f"{self.options.run} has no running job to take over: {error}") from error
        self._token = known["token"]
        return int(known["port"])

    def _remember(self) -> None:
        path = self.options.run / CONTROL_FILE
        facts = {"host": self.options.host, "port": self._port, "token": self._token, "pid": os.getpid()}
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump(facts, file)

    def _start_nursery(self) -> None:
        # A rigid job starts once: importing PyTorch for it beforehand would only make it wait.
        cold = self.options.kind is JobKind.RIGID and not self.options.preload
        threads = str(self.options.threads) if cold else "1"
        environment = {
            **os.environ,
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads),
            ENDPOINT: f"{self.options.host}:{self._port}",
            TOKEN: self._token,
            NODE: "local",
            PRELOAD: ",".join(self.options.preload),
            "ELASTANE_RUN": str(self.options.run.resolve()),
        }
        with (self.options.run / "logs" / "nursery.log").open("ab") as log:
            self._nursery = subprocess.Popen(  # noqa: S603
                [sys.executable, *(_COLD_NURSERY if cold else _NURSERY)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _order(self, worker: str) -> Mapping[str, Any]:
        assert self._server is not None
        coordinator = self._server.coordinator
        if isinstance(coordinator, PlainCoordinator):
            particular, joins = coordinator.environment(worker), False
        else:
            particular, joins = self._elastic_environment(worker), coordinator.current is not None
        return Order(
            worker=worker,
            script=self.options.script,
            arguments=self.options.arguments,
            environment={**self.options.environment, **particular},
            log=str(self._log_of(worker).resolve()),
            directory=str(self.options.directory.resolve()),
            module=self.options.module,
            nice=self.options.warm_nice if joins else 0,
        ).to_json()

    def _elastic_environment(self, worker: str) -> dict[str, str]:
        return {
            ENDPOINT: f"{self.options.host}:{self._port}",
            TOKEN: self._token,
            NODE: "local",
            "ELASTANE_WORKER": worker,
            "ELASTANE_RUN": str(self.options.run.resolve()),
            "ELASTANE_THREADS": str(self.options.threads),
        }

    # While it runs.

    async def _until_over(self, server: CoordinationServer) -> None:
        over = asyncio.create_task(server.finished.wait())
        adopted_by_s = time.monotonic() + self.options.settings.lease_s
        while not over.done():
            await asyncio.wait({over}, timeout=0.5)
            if self._nursery is None and not server.has_nursery and time.monotonic() > adopted_by_s:
                self._start_nursery()  # the one we wanted to take over is gone
            nursery = self._nursery
            if nursery is not None and nursery.poll() is not None and not over.done():
                over.cancel()
                self._kill_orphans(server)
                tail = (self.options.run / "logs" / "nursery.log").read_text(errors="replace").strip()
                raise TrainError(
                    f"workers cannot be started: {tail.splitlines()[-1] if tail else 'no reason given'}"
                )
        deadline = time.monotonic() + GRACE_S
        while self._processes(server) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    def _processes(self, server: CoordinationServer) -> list[int]:
        """Of workers that are still there, as far as they have been started."""
        alive = [worker.name for worker in server.coordinator.workers.values() if worker.alive]
        return [server.pids[name] for name in alive if name in server.pids]

    def _kill_orphans(self, server: CoordinationServer) -> None:
        for pid in self._processes(server):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _clear_up(self, server: CoordinationServer, log: PlanLog) -> None:
        await server.close()
        nursery = self._nursery
        if nursery is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(nursery.wait, 5.0)
            if nursery.poll() is None:
                nursery.kill()
                nursery.wait()
        self._echo_new()
        self._echo.finish()
        log.close()
        (self.options.run / CONTROL_FILE).unlink(missing_ok=True)

    def _ended(self, coordinator: Decider) -> Ended:
        outcome = coordinator.outcome
        now = time.time()
        ended = Ended(
            now,
            outcome.outcome if outcome else "stopped",  # type: ignore[arg-type]
            outcome.cause if outcome else "interrupted",
            coordinator.step,
            now - self._began_s,
        )
        self._tell(ended)
        if self._journal is not None:
            self._journal.close()
        return ended

    def _announce(self) -> None:
        """Say that a plain job begins; an adaptive one says so itself, once it knows its batch."""
        options = self.options
        if options.kind is not JobKind.ADAPTIVE:
            script = options.script if options.module else Path(options.script).name
            facts = {"elastane": __version__}
            workers = options.settings.workers
            self._tell(Started(time.time(), str(options.run), script, options.kind.value, workers, 0, 0, facts))

    def _event(self, values: Mapping[str, Any]) -> None:
        with contextlib.suppress(ValueError):
            event = from_json({"at_s": time.time(), **values})
            if event is not None:
                self._tell(event)

    def _tell(self, event: Event) -> None:
        if self._journal is not None:
            self._journal.write(event)
        self._show(event)

    def _interrupt(self) -> None:
        self._interrupted += 1
        server = self._server
        if server is None:
            return
        if self._interrupted == 1:
            now = asyncio.get_running_loop().time()
            server.perform(server.coordinator.stop("interrupted", now))
            if server.coordinator.current is None:
                server.finished.set()
        else:
            server.finished.set()

    async def _grant_wishes(self) -> None:
        server = self._server
        assert server is not None
        chance = random.Random(self.options.seed)
        while server.coordinator.current is None:
            await asyncio.sleep(0.02)
        began = time.monotonic()
        for wish in self.options.wishes:
            while not self._may_grant(wish, time.monotonic() - began):
                await asyncio.sleep(0.01)
            victim = self.grant(wish, chance)
            while wish.settled and victim and server.coordinator.workers[victim].alive:
                await asyncio.sleep(0.01)
        self.granted_all = True

    def _may_grant(self, wish: Wish, elapsed_s: float) -> bool:
        assert self._server is not None
        coordinator = self._server.coordinator
        due = (coordinator.step if wish.steps else elapsed_s) >= wish.at
        return due and (not wish.settled or self.settled)

    @property
    def settled(self) -> bool:
        """Whether as many workers train as are wanted, and no change is under way."""
        return self._server is not None and self._server.coordinator.settled

    def grant(self, wish: Wish, chance: random.Random) -> str | None:
        """Resize, or break something on purpose; returns the worker that was hit."""
        server = self._server
        assert server is not None
        if wish.action == "resize":
            server.perform(server.coordinator.resize(wish.workers, asyncio.get_running_loop().time()))
            return None
        members = server.status()["members"]
        if not members:
            return None
        victim: str = members[0] if wish.action == "kill-leader" else chance.choice(members)
        server.signal(victim, signal.SIGSTOP if wish.action == "stop" else signal.SIGKILL)
        return victim

    async def _echo_logs(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            self._echo_new()

    def _echo_new(self) -> None:
        """Pass on what the leader's script has printed."""
        if self._server is not None:
            coordinator = self._server.coordinator
            plan = coordinator.current
            self._echo.look(plan.members[0] if plan else next(iter(coordinator.workers), None))


def control_of(run: Path) -> Mapping[str, Any]:
    """Where a running job can be reached."""
    try:
        facts: Mapping[str, Any] = json.loads((run / CONTROL_FILE).read_text())
    except (OSError, ValueError) as error:
        raise TrainError(f"no job is running in {run}") from error
    return facts


def parse_wishes(resize: str | None, chaos: Sequence[str]) -> tuple[Wish, ...]:
    """``1:30s,4:60s`` and ``kill:45s`` as wishes; ``kill:500steps`` counts steps instead of seconds."""
    wishes = []
    for part in (resize or "").split(","):
        if part.strip():
            count, at, steps = _parts(part, "--resize", "WORKERS:TIME, as in 4:60s or 4:500steps")
            if not count.isdigit() or int(count) < 1:
                raise TrainError(f"--resize: {count!r} is not a number of workers")
            wishes.append(Wish(at, "resize", int(count), steps))
    for part in ",".join(chaos).split(","):
        if part.strip():
            action, at, steps = _parts(part, "--chaos", "WHAT:TIME, as in kill:45s or kill:500steps")
            if action not in ("kill", "kill-leader", "stop"):
                raise TrainError(f"--chaos: {action!r} is not one of kill, kill-leader, stop")
            wishes.append(Wish(at, action, steps=steps))
    return tuple(sorted(wishes, key=lambda wish: wish.at))


def _parts(text: str, option: str, form: str) -> tuple[str, float, bool]:
    what, _, when = text.strip().partition(":")
    number = when.removesuffix("steps").removesuffix("s")
    try:
        return what, float(number), when.endswith("steps")
    except ValueError:
        raise TrainError(f"{option}: {text.strip()!r} is not {form}") from None
