"""Defines every message between a supervisor and its workers, fork servers and clients.

=========== ====================== ===================
peer        says to the supervisor hears from it
=========== ====================== ===================
worker      ``FROM_WORKER``        ``TO_WORKER``
fork server ``FROM_FORK_SERVER``   ``TO_FORK_SERVER``
client      ``FROM_CLIENT``        ``TO_CLIENT``
=========== ====================== ===================

Workers and fork servers may be those of an earlier version (a service is upgraded while jobs run), clients of an
earlier or a later one: a field that is added gets a default, and a type that is added must be harmless to whoever does
not know it.  Numbers are bounded, for a worker's process is its job's, which may say anything.  On the line, the role
of a fork server is ``nursery``, as earlier versions called it.
"""

from __future__ import annotations

import signal
from typing import Annotated, Any, get_args

from msgspec import Meta, Struct, field

from elastane.train.coordinator.membership_plan import Plan
from elastane.train.coordinator.script_runner import Order
from elastane.train.coordinator.wire import Line, Message
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase
from elastane.train.exit_cause import ExitCause, ExitKind
from elastane.train.transport_choice import UNTOLD, MemberDevice

_LARGEST = 2**53
Count = Annotated[int, Meta(ge=0, le=_LARGEST)]
"""Steps, generations and the like."""
Whole = Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)]
Workers = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
SignalNumber = Annotated[int, Meta(ge=1, le=64)]

# A worker speaks.


class WorkerHello(Message, frozen=True, tag="hello"):
    """The first words of a worker, also to a supervisor that has replaced its own: then with all it has to know."""

    worker: str
    node: str = ""
    host: str = ""
    """Where other workers reach it."""
    phase: Phase = Phase.WARMING
    generation: Count = 0
    applied: Whole = -1
    done: bool = False
    signature: dict[str, Any] = field(default_factory=dict)
    stream: str = ""
    device: MemberDevice = UNTOLD
    """On what it trains; one of an earlier version knows CPUs only."""


class WorkerBeat(Message, frozen=True, tag="beat"):
    """A sign of life."""

    step: Count
    doing: Activity
    cpu_s: float | None = None
    """Processor time used so far, in a worker's first steps."""


class Reported(Message, frozen=True, tag="report"):
    """An event for the run's reports, as ``reports.events`` has it."""

    event: dict[str, Any]


class Address(Message, frozen=True, tag="blob"):
    """Where a member is reached by the group of a generation, in base 64."""

    generation: Count
    rank: Count
    data: str
    name: str = ""
    """Under which it is known; empty for the address of a gloo group, of which a member has one."""


class Goodbye(Message, frozen=True, tag="goodbye"):
    """Why the worker is about to end."""

    cause: str


class Ready(Message, frozen=True, tag="ready"):
    """The worker has built its model and may be planned in."""

    signature: dict[str, Any]
    stream: str
    device: MemberDevice = UNTOLD
    stored: Count = 0
    """The latest generation that it sees where checkpoints lie; a worker of an earlier version does not look."""


class Built(Message, frozen=True, tag="built"):
    """The worker has connected the group of a plan that is being prepared."""

    generation: Count
    lacking: str = ""
    """Why it has no communicator although the plan has one; the plan is then made again without."""


class CaughtUp(Message, frozen=True, tag="caught_up"):
    """The joining worker's state follows the training at most a step behind."""

    generation: Count


class Lagging(Message, frozen=True, tag="lagging"):
    """The joining worker cannot follow the training."""

    generation: Count
    why: str


class Apart(Message, frozen=True, tag="apart"):
    """The group of an urgent plan could not be connected."""

    generation: Count
    why: str


class Entered(Message, frozen=True, tag="entered"):
    """The worker trains in this generation."""

    generation: Count
    step: Count


class Failed(Message, frozen=True, tag="failed"):
    """The generation is over for the worker."""

    generation: Count
    applied: Whole | None
    """The last step it has applied; None if it holds no complete state."""
    why: str


class Parts(Message, frozen=True, tag="parts"):
    """The largest part of a step that the worker is about to compute.

    With 0 it takes that back: memory runs out, but not in a step.
    """

    samples: Count


class Strayed(Message, frozen=True, tag="strayed"):
    """A newcomer was in another loop of the script than the others: the script counts by itself."""


class LoopBegins(Message, frozen=True, tag="loop_begins"):
    """The members stand where a loop over the data begins, and ask whether they enter this generation."""

    generation: Count


class Left(Message, frozen=True, tag="left"):
    """The worker has passed the boundary at which its plan lets it go."""

    generation: Count = 0


class Leave(Message, frozen=True, tag="leave"):
    """The worker wants to go: the job shall have another in its place."""

    why: str = ""


class Done(Message, frozen=True, tag="done"):
    """The worker has come to the end of training."""

    step: Count


FromWorker = (
    WorkerHello
    | WorkerBeat
    | Reported
    | Address
    | Goodbye
    | Ready
    | Built
    | CaughtUp
    | Lagging
    | Apart
    | Entered
    | Failed
    | Parts
    | Strayed
    | LoopBegins
    | Left
    | Leave
    | Done
)
FROM_WORKER: Line[FromWorker] = Line("a worker", *get_args(FromWorker))

# A worker hears.


class Refused(Message, frozen=True, tag="refused"):
    """The others go on without this worker; it must not touch anything any more."""

    cause: str


class Welcome(Message, frozen=True, tag="welcome"):
    """The answer to a hello."""

    lease_s: float


class Planned(Message, frozen=True, tag="plan"):
    """A plan has been made that concerns this worker."""

    plan: Plan


class Cancelled(Message, frozen=True, tag="cancel"):
    """The plan of this generation is given up."""

    generation: Count


class Aborted(Message, frozen=True, tag="abort"):
    """Generations up to this one are over."""

    generation: Count
    cause: str = ""


class StopTraining(Message, frozen=True, tag="stop"):
    """The job ends; the worker leaves at its next boundary."""

    cause: str
    failed: bool = False
    """Nobody will finish a step any more."""


class Over(Message, frozen=True, tag="over"):
    """Training has ended for everybody."""


class Settled(Message, frozen=True, tag="settled"):
    """Everybody has entered this generation."""

    generation: Count


class Go(Message, frozen=True, tag="go"):
    """This generation may be entered at the next boundary."""

    generation: Count


class Prepared(Message, frozen=True, tag="prepared"):
    """This generation may be entered where the next loop over the data begins (``Plan.at_loop``)."""

    generation: Count


class MemberAddress(Message, frozen=True, tag="peer"):
    """Where another member is reached by the group of a generation."""

    generation: Count
    rank: Count
    data: str
    name: str = ""


class Note(Message, frozen=True, tag="note"):
    """A warning for whoever reads the worker's log."""

    text: str


ToWorker = (
    Refused
    | Welcome
    | Planned
    | Cancelled
    | Aborted
    | StopTraining
    | Over
    | Settled
    | Go
    | Prepared
    | MemberAddress
    | Note
)
TO_WORKER: Line[ToWorker] = Line("the supervisor", *get_args(ToWorker))

# A fork server speaks.


class ForkServerHello(Message, frozen=True, tag="hello"):
    """The first words of a fork server, also to a supervisor that has replaced its own."""

    node: str
    host: str = ""
    """Where its node is reached by others."""
    pids: dict[str, Count] = field(default_factory=dict)
    """Its workers that are alive."""
    beats: bool = False
    """Whether it promises signs of life; one of an earlier version does not."""
    problem: str | None = None
    """Why it can start no workers; it ends after that."""
    note: str = ""
    """What a person should know of it."""


class ForkServerBeat(Message, frozen=True, tag="beat"):
    """A sign of life."""


class Started(Message, frozen=True, tag="started"):
    """A worker's process exists."""

    worker: str
    pid: Count


class Exited(Message, frozen=True, tag="exited"):
    """A worker's process has ended; ``code`` is below 0 for a signal."""

    worker: str
    code: Whole
    out_of_memory: bool = False
    """Whether it ended by an exception that means that; earlier versions do not say."""


FromForkServer = ForkServerHello | ForkServerBeat | Started | Exited
FROM_FORK_SERVER: Line[FromForkServer] = Line("a fork server", *get_args(FromForkServer))

# A fork server hears.


class Spawn(Message, frozen=True, tag="spawn"):
    """Start a worker's process by this order."""

    order: Order


class SendSignal(Message, frozen=True, tag="kill"):
    """Send a signal to a worker and whatever it has started."""

    worker: str
    signal: SignalNumber = signal.SIGKILL.value


class StopForkServer(Message, frozen=True, tag="stop"):
    """End all workers, and yourself."""


ToForkServer = Spawn | SendSignal | StopForkServer
TO_FORK_SERVER: Line[ToForkServer] = Line("the supervisor", *get_args(ToForkServer))

# A client asks.


class Resize(Message, frozen=True, tag="resize"):
    """From now on so many workers, without those in ``drop``."""

    workers: Workers
    drop: tuple[str, ...] = ()


class Place(Message, frozen=True, tag="place"):
    """From now on so many workers on each node."""

    places: dict[str, Workers]


class StopJob(Message, frozen=True, tag="stop"):
    """End the job; with ``kind`` suspended it is to go on later."""

    cause: str = "asked to stop"
    kind: str = ExitKind.CANCELLED.value

    @property
    def why(self) -> ExitCause:
        """The cause of the end that this brings about; a kind that we do not know is an end for good."""
        suspends = self.kind == ExitKind.SUSPENDED.value
        return ExitCause(ExitKind.SUSPENDED if suspends else ExitKind.CANCELLED, detail=self.cause)


class SignalWorker(Message, frozen=True, tag="signal"):
    """Send a signal to a worker's process."""

    worker: str
    signal: SignalNumber


class AskStatus(Message, frozen=True, tag="status"):
    """Ask for the job's membership."""


FromClient = Resize | Place | StopJob | SignalWorker | AskStatus
FROM_CLIENT: Line[FromClient] = Line("a client", *get_args(FromClient))

# A client hears.


class Ok(Message, frozen=True, tag="ok"):
    """It is done, or will be; for a resize with the workers that there will be."""

    workers: Count | None = None


class WorkerStatus(Struct, frozen=True):
    """What a client is told of one living worker."""

    phase: str
    pid: int | None
    node: str
    step: int
    doing: str


class Status(Message, frozen=True, tag="status"):
    """Who trains, how far they are, and every living worker."""

    generation: Count
    members: tuple[str, ...]
    """In rank order."""
    target: Count
    step: Count
    workers: dict[str, WorkerStatus]


class NotUnderstood(Message, frozen=True, tag="unknown"):
    """The supervisor did not understand the request, and did nothing."""

    cause: str


ToClient = Ok | Status | NotUnderstood
TO_CLIENT: Line[ToClient] = Line("the supervisor", *get_args(ToClient))
