"""A worker's line to the coordinator: what it was told, kept until the training thread asks.

Two threads of its own: one listens (and reconnects for as long as it takes: training never needs the coordinator except
to change members), one sends signs of life.  The training thread only reads flags here, or waits in ``await_plan``.
"""

from __future__ import annotations

import base64
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from elastane.train.coordinator.cpu_activity import EarlyEffort
from elastane.train.coordinator.login import connect
from elastane.train.coordinator.membership_plan import Plan
from elastane.train.coordinator.messages import (
    TO_WORKER,
    Aborted,
    Address,
    Cancelled,
    Done,
    Entered,
    FromWorker,
    Go,
    Goodbye,
    MemberAddress,
    Note,
    Over,
    Planned,
    Prepared,
    Ready,
    Refused,
    Reported,
    Settled,
    StopTraining,
    ToWorker,
    WorkerBeat,
)
from elastane.train.coordinator.relocation import port_there
from elastane.train.coordinator.wire import Connection
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase
from elastane.train.errors import MembershipChanged, Released, TrainError
from elastane.train.worker.worker_account import WorkerAccount

BEAT_S = 0.5
RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class PlanHandlers:
    """What is done about news of plans, in the thread that listens."""

    plan: Callable[[Plan], None]
    """A plan has been made that concerns this worker."""
    cancel: Callable[[int], None]
    """The plan of this generation is given up."""
    abort: Callable[[int], None]
    """Generations up to this one are over."""


class CoordinatorClient:
    """The line of one worker; it says and hears nothing before ``start``."""

    def __init__(
        self, worker: str, endpoint: tuple[str, int], token: str, node: str, host: str = "127.0.0.1"
    ) -> None:
        self.worker = worker
        self.plan: Plan | None = None
        """The newest plan that has not been entered or cancelled."""
        self.aborted = 0
        """Generations up to this one are over."""
        self.go = 0
        """The generation that may be entered at the next boundary."""
        self.prepared = 0
        """The generation that may be entered where the next loop begins, once the coordinator says so."""
        self.over = False
        """Training has ended for everybody."""
        self.settled = 0
        """Everybody has entered this generation; groups of earlier ones are of no use to anybody."""
        self.stop_cause: str | None = None
        self._account = WorkerAccount()
        self._doing = (0, Activity.WARMING)
        self._endpoint, self._token = endpoint, token
        self._node, self._host = node, host
        self._news = threading.Condition()
        self._addresses: dict[int, dict[tuple[int, str], bytes]] = {}
        self._refused: str | None = None
        self._connection: Connection | None = None
        self._unsent: deque[FromWorker] = deque(maxlen=100)

    def start(self, handlers: PlanHandlers) -> None:
        """Begin to listen and to give signs of life."""
        threading.Thread(target=self._listen, args=(handlers,), name="coordinator", daemon=True).start()
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    @property
    def member(self) -> bool:
        """Whether this worker has entered a generation."""
        return self._account.phase is Phase.MEMBER

    def ready(self, message: Ready) -> None:
        """The worker may be planned in."""
        self._account = self._account.ready(message)
        self.send(message)

    def entered(self, message: Entered) -> None:
        """The worker trains in this generation: its plan has been carried out."""
        self._account = self._account.entered(message)
        self.forget_plan(message.generation)
        self.send(message)

    def applied(self, step: int) -> None:
        """The last step of which the worker holds the complete state, for a coordinator that replaces this one."""
        self._account = self._account.stopped_at(step)

    def done(self, message: Done) -> None:
        """The worker has come to the end of training."""
        self._account = self._account.finished()
        self.send(message)

    def doing(self, what: Activity, step: int | None = None) -> None:
        """For the signs of life; without ``step`` it is where it was."""
        self._doing = (self._doing[0] if step is None else step, what)

    def send(self, message: FromWorker) -> None:
        """Say something; kept for later if there is no coordinator now."""
        try:
            if self._connection is None:
                raise OSError
            self._connection.send(message)
        except OSError:
            if not isinstance(message, WorkerBeat | Reported):
                self._unsent.append(message)

    def await_plan(
        self, wanted: Callable[[Plan], bool], acknowledged: int, asked: Callable[[int], None]
    ) -> Plan:
        """Wait for a plan; ``asked`` is called for every generation that ends beyond ``acknowledged``."""
        while True:
            with self._news:
                self._news.wait_for(partial(self._something, wanted, acknowledged))
                self.check()
                if self.plan is not None and wanted(self.plan) and self.plan.generation > self.aborted:
                    return self.plan
                acknowledged = self.aborted
            asked(acknowledged)

    def _something(self, wanted: Callable[[Plan], bool], seen: int) -> bool:
        ended = self._refused is not None or self.stop_cause is not None
        plan = self.plan
        return (
            ended
            or self.aborted > seen
            or (plan is not None and wanted(plan) and plan.generation > self.aborted)
        )

    def wait_until(self, condition: Callable[[], bool], orphan_s: float | None = None) -> None:
        """Wait for any change that makes ``condition`` true; ``orphan_s`` long at most without a coordinator."""
        lonely_since = time.monotonic()
        with self._news:
            while not condition() and self._refused is None and self.stop_cause is None:
                self._news.wait(BEAT_S)
                if self._connection is not None:
                    lonely_since = time.monotonic()
                elif orphan_s is not None and time.monotonic() - lonely_since > orphan_s:
                    return
            self.check()

    def wake(self) -> None:
        """Something changed outside that a waiter may be waiting for."""
        with self._news:
            self._news.notify_all()

    def check(self) -> None:
        """Raise if this worker must not go on waiting."""
        if self._refused is not None:
            raise TrainError(self._refused)
        if self.stop_cause is not None:
            raise Released(self.stop_cause)

    def forget_plan(self, generation: int) -> None:
        """This plan has been entered."""
        with self._news:
            if self.plan is not None and self.plan.generation <= generation:
                self.plan = None
            self._addresses = {g: a for g, a in self._addresses.items() if g > generation}

    def goodbye(self, cause: str) -> None:
        """Say why this process ends."""
        self.send(Goodbye(cause))

    def exchange(self, generation: int) -> AddressExchange:
        """How members of this generation find each other."""
        return AddressExchange(self, generation)

    def named_exchange(self, generation: int, rank: int) -> CoordinatorNames:
        """How members of this generation tell each other short values by name."""
        return CoordinatorNames(self, generation, rank)

    def put_address(self, generation: int, rank: int, data: bytes, name: str = "") -> None:
        """Publish this worker's group address, or something else under a name."""
        text = base64.b64encode(data).decode()
        with self._news:
            self._addresses.setdefault(generation, {})[rank, name] = data
        self.send(Address(generation, rank, text, name))

    def get_named(self, generation: int, name: str, timeout_s: float) -> bytes:
        """Wait for what any member has put under this name."""
        found: list[bytes] = []

        def there() -> bool:
            known = self._addresses.get(generation, {})
            found[:] = [data for (_, key), data in known.items() if key == name]
            return bool(found) or self._over(generation)

        with self._news:
            if not self._news.wait_for(there, timeout_s) or self._over(generation):
                raise MembershipChanged(f"nobody has told {name!r} in generation {generation}")
            return found[0]

    def get_address(self, generation: int, rank: int, timeout_s: float) -> bytes:
        """Wait for another member's."""
        with self._news:
            there = self._news.wait_for(
                lambda: (rank, "") in self._addresses.get(generation, {}) or self._over(generation), timeout_s
            )
            if not there or self._over(generation):
                raise MembershipChanged(f"no address of rank {rank} in generation {generation}")
            return self._addresses[generation][rank, ""]

    def _over(self, generation: int) -> bool:
        return self.aborted >= generation or self.plan is None or self.plan.generation != generation

    def _listen(self, handlers: PlanHandlers) -> None:
        while True:
            try:
                there = port_there(os.environ, self._endpoint[1])
                connection = connect(*self._endpoint, "worker", self._token, known_as=there)
                connection.send(self._account.hello(self.worker, self._node, self._host))
                self._send_kept(connection)
                self._connection = connection
                self._send_kept(connection)  # what another thread kept before it saw the connection
            except OSError:
                self._connection = None
            else:
                for message in connection.messages(TO_WORKER):
                    self._hear(message, handlers)
                self._connection = None
            time.sleep(RETRY_S)

    def _send_kept(self, connection: Connection) -> None:
        while self._unsent:
            connection.send(self._unsent[0])
            self._unsent.popleft()

    def _hear(self, message: ToWorker, handlers: PlanHandlers) -> None:
        with self._news:
            call = self._heard_about_plans(message, handlers)
            match message:
                case MemberAddress(generation, rank, data, name):
                    self._addresses.setdefault(generation, {})[rank, name] = base64.b64decode(data)
                case Go(generation):
                    self.go = generation
                case Prepared(generation):
                    self.prepared = generation
                case Over():
                    self.over = True
                case Settled(generation):
                    self.settled = max(self.settled, generation)
                case Refused(cause):
                    self._refuse(cause)
                case Note(text):
                    print(f"elastane: {text}", file=sys.stderr)  # noqa: T201
            self._news.notify_all()
        if call is not None:
            call()

    def _heard_about_plans(self, message: ToWorker, handlers: PlanHandlers) -> Callable[[], None] | None:
        """Take in news about plans; returns what to do about it once the lock is free."""
        match message:
            case Planned(plan):
                self.plan = plan
                return partial(handlers.plan, plan)
            case Cancelled(generation):
                if self.plan is not None and self.plan.generation == generation:
                    self.plan = None
                return partial(handlers.cancel, generation)
            case Aborted(generation):
                self.aborted = max(self.aborted, generation)
                return partial(handlers.abort, self.aborted)
            case StopTraining(cause, failed):
                self.stop_cause = cause
                if failed:
                    # Nobody will finish a step any more: say why, and do not wait for one.
                    print(f"elastane: error: {self.stop_cause}", file=sys.stderr)  # noqa: T201
                    return partial(handlers.abort, sys.maxsize)
        return None

    def _refuse(self, cause: str) -> None:
        """The others go on without this worker: it must not touch anything any more."""
        self._refused = cause
        if self.member:
            print(f"elastane: this worker is out: {cause}", file=sys.stderr)  # noqa: T201
            sys.stderr.flush()
            os._exit(3)

    def _beat(self) -> None:
        effort = EarlyEffort()
        while True:
            step, doing = self._doing
            self.send(WorkerBeat(step, doing, effort.told(step, doing, self._account.generation)))
            time.sleep(BEAT_S)


class AddressExchange:
    """``Exchange`` of one generation through the coordinator."""

    def __init__(self, client: CoordinatorClient, generation: int) -> None:
        self._client = client
        self._generation = generation

    def put(self, rank: int, data: bytes) -> None:
        """Publish this member's address."""
        self._client.put_address(self._generation, rank, data)

    def get(self, rank: int, timeout_s: float) -> bytes:
        """Wait for the address of another member."""
        return self._client.get_address(self._generation, rank, timeout_s)


class CoordinatorNames:
    """Values by name between the members of one generation, through the coordinator."""

    def __init__(self, client: CoordinatorClient, generation: int, rank: int) -> None:
        self._client, self._generation, self._rank = client, generation, rank

    def put(self, name: str, data: bytes) -> None:
        """Publishes a value for all members of the generation."""
        self._client.put_address(self._generation, self._rank, data, name)

    def get(self, name: str, timeout_s: float) -> bytes:
        """Wait for one; raises MembershipChanged when it will not come."""
        return self._client.get_named(self._generation, name, timeout_s)
