"""An engine brings wanted states of jobs about on nodes, and reports what became of them.

The control plane says what it wants (``ensure``) as often as it likes; an engine makes it so and says what
happened (``Report``), each report as often as it takes until the control plane has stored it (``forget``).
Nothing an engine promises depends on the control plane being there: jobs go on while it is dead.

An *attempt* of a job is started at most once, by whatever number of control planes that believe they have to.
It is fenced by its number: a report of an attempt that is not the job's latest means nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from elastane.cluster import Grant, Node
from elastane.jobs.declared import Declared
from elastane.jobs.parts import Interpreter
from elastane.train.exit_cause import ExitCause, ExitKind
from elastane.train.reports.events import Event


@dataclass(frozen=True, slots=True, order=True)
class Attempt:
    """One execution of a job, from its first start to the end of its processes."""

    job: str
    number: int

    def __str__(self) -> str:
        return f"{self.job}.{self.number}"


@dataclass(frozen=True, slots=True)
class Shared:
    """Code that lies under the same path on every node of the job; without a path, in the job's directory."""

    path: str = ""


@dataclass(frozen=True, slots=True)
class Package:
    """Code that travels: the archive with this digest, unpacked once on each node that needs it."""

    digest: str
    subdirectory: str = ""
    """The job's directory within the package; empty is its top."""
    top: str = ""
    """The directory that was packed, by the path it has where it was submitted."""


Code = Shared | Package
"""Where the files come from that a job's command runs."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything needed to run an attempt.

    ``folder`` is where the engine keeps what it knows of the attempt; ``run`` is the job's, and outlives it.
    """

    attempt: Attempt
    name: str
    command: tuple[str, ...]
    directory: str
    folder: Path
    run: Path
    kind: str = "auto"
    guessed: bool = False
    """Its kind was found by looking at its source, not told by its owner: it may turn out to be adaptive."""
    environment: Mapping[str, str] = field(default_factory=dict)
    most_workers: int | None = None
    worker_slots: float = 1.0
    """Slots, and so accelerators where there are any, that each worker takes."""
    worker_memory_gb: float = 0.0
    """Memory that each worker may take, where the system can see to it; 0 is no limit."""
    checkpoint_s: float | None = None
    checkpoints: str = ""
    """A path or URL where the training library saves; empty: in ``run``."""
    tenant: str = "default"
    declared: Declared = Declared()
    """What its owner says about its training; all its processes find it in their environment."""
    python: str = ""
    """The interpreter of its script; empty: the one that its command finds."""
    code: Code = Shared()
    """Where its files come from; of a package, ``directory`` is the copy on the head."""

    @property
    def records(self) -> Path:
        """Where supervisors of all attempts of the job write down plans and reports: out of the job's reach."""
        return self.folder.parent


class Ending(Enum):
    """How to end an attempt that is no longer wanted."""

    SUSPEND = "suspend"  # save, leave, and be able to go on from there
    CANCEL = "cancel"  # leave within the grace period; nothing will be asked for again


@dataclass(frozen=True, slots=True)
class Wanted:
    """The state an attempt shall have: a grant, or (with none) an end."""

    launch: Launch
    grant: Grant | None
    ending: Ending = Ending.CANCEL
    why: str = ""
    seen: int = 0
    """The number of the last report that is stored, for an engine that does not remember it."""


def places_of(grant: Grant | None) -> dict[str, int]:
    """Workers by node; none without a grant."""
    return {part.node: part.workers for part in grant.slices if part.workers} if grant is not None else {}


class Cause(Enum):
    """What the end of an attempt means for its job; ``cause_of`` says which ``ExitKind`` means what."""

    FINISHED = "finished"
    FAILED = "failed"  # by itself: exit code, exception
    OUT_OF_MEMORY = "out of memory"
    SUSPENDED = "suspended"  # as it was asked to
    CANCELLED = "cancelled"  # as it was asked to
    LOST = "lost"  # its node or its supervisor is gone; none of its doing
    UNSTARTABLE = "cannot be started"  # missing program or directory


_CAUSES: Mapping[ExitKind, Cause] = {
    ExitKind.FINISHED: Cause.FINISHED,
    ExitKind.EXIT_CODE: Cause.FAILED,
    ExitKind.SIGNAL: Cause.FAILED,
    ExitKind.OUT_OF_MEMORY: Cause.OUT_OF_MEMORY,
    ExitKind.UNSTARTABLE: Cause.UNSTARTABLE,
    ExitKind.NODE_LOST: Cause.LOST,
    ExitKind.GIVEN_UP: Cause.FAILED,
    ExitKind.SUSPENDED: Cause.SUSPENDED,
    ExitKind.CANCELLED: Cause.CANCELLED,
}


def cause_of(exit: ExitCause) -> Cause:
    """What an end means for its job: the only place where that is decided."""
    return _CAUSES[exit.kind]


@dataclass(frozen=True, slots=True)
class Report:
    """Something an engine has to say; ``number`` orders what is said of one attempt."""

    attempt: Attempt
    number: int


@dataclass(frozen=True, slots=True)
class Running(Report):
    """All workers of a grant run: at first, and after every change."""

    workers: Mapping[str, int]
    """Workers by node."""
    kind: str
    why_kind: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Told(Report):
    """What the training itself reported."""

    event: Event


@dataclass(frozen=True, slots=True)
class Over(Report):
    """The attempt has ended and none of its processes is left."""

    exit: ExitCause
    at_s: float

    @property
    def cause(self) -> Cause:
        """What the end means for the job."""
        return cause_of(self.exit)

    @property
    def detail(self) -> str:
        """Words for people, which no decision reads; empty for an end in which nothing went wrong."""
        return "" if self.exit.clean else str(self.exit)

    @property
    def code(self) -> int | None:
        """The exit code of its first worker that failed, or less than 0: its signal."""
        return self.exit.code if self.exit.signal is None else -self.exit.signal


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What the engine knows of one worker process."""

    name: str
    node: str
    pid: int | None
    doing: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What an engine knows of a node besides what policies see of it (``Node``)."""

    incarnation: str = ""
    """The random name of whoever runs the node now; another one means that everything on it has ended."""
    address: str = ""
    """Where other nodes reach it; empty for a node of the head itself.  Nodes at one address are one machine."""
    pool: str = ""
    """The pool that it came from, as whoever supplies machines calls it; empty for one that nobody gives back."""
    accelerators: tuple[str, ...] = ()
    """The ids of its accelerators, if it has any."""
    unfit: str = ""
    """Why nothing may be placed there, if so."""
    suspect: bool = False
    """Whether it has been silent for a while: nothing new is placed there, nothing is taken away."""
    leaving_s: float | None = None
    """In how many seconds it will be taken away, if that is known; counted from when it was first said."""
    cores: int = 0
    """Cores of its machine, where ``Node`` does not account them; 0 if that is not known."""
    memory_gb: float = 0.0
    """Main memory of its machine, likewise."""
    declared: bool = False
    """Whether it belongs to the cluster even while it is away for long: it is never forgotten."""
    blind: bool = False
    """Whether it does not see the run folders of jobs on the head: what is saved there can be read here only."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A kind of node of which there can be more or fewer: ``node`` is what one of them looks like."""

    node: Node
    now: int
    """How many there are."""
    least: int = 0
    most: int = 0
    price_per_hour: float = 0.0
    """Of one node; 0 where nobody pays by the hour."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What can be said of a command before it runs: how elastic it is and why, and what is missing, if anything."""

    kind: str
    why: str
    missing: str = ""
    python: Interpreter | None = None
    """The interpreter it will run with; None leaves that to its command."""
    workers: tuple[int, int] | None = None
    """Fewest and most workers that the command itself asks for, as torchrun's options do."""
    notes: tuple[str, ...] = ()
    """What else its owner should know."""
    mendable: bool = False
    """Whether ``why`` says what its owner can do to have it more elastic."""
    heeds: bool = True
    """Whether an adaptive script goes by what its owner declares (epochs, target, batch)."""


class Engine(Protocol):
    """A place where jobs run."""

    async def examine(
        self,
        kind: str,
        command: Sequence[str],
        directory: str,
        environment: Mapping[str, str],
        python: Interpreter | None = None,
        *,
        owner: str = "",
    ) -> Examined:
        """Look at a command without running it; ``kind`` is the owner's word, or ``auto``.

        Raises:
            ElastaneError: its files do not let themselves be looked at.
        """
        ...

    async def open(self) -> None:
        """Take over whatever runs already; returns when nodes are there or are being started."""
        ...

    async def close(self, *, leave_running: bool) -> None:
        """Let go; without ``leave_running`` everything ends, agents included, and no process is left."""
        ...

    def nodes(self) -> Mapping[str, Node]:
        """Nodes that are there now; what keeps work from them say ``node_facts``."""
        ...

    def known_nodes(self) -> Mapping[str, Node]:
        """Nodes that were declared or seen lately, whether they answer or not."""
        ...

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """More about the nodes that it knows, by name; nothing about a node is as good as ``NodeFacts()``."""
        ...

    def pools(self) -> Mapping[str, Pool]:
        """Kinds of nodes that it can get and give back, by name; none where machines are what they are."""
        ...

    def want(self, pool: str, count: int, keep: Collection[str]) -> None:
        """A pool shall have so many nodes from now on, ``keep`` among them.  Harmless to repeat; returns at once."""
        ...

    def ensure(self, wanted: Wanted) -> None:
        """This is what the attempt shall be from now on.  Harmless to repeat; returns at once."""
        ...

    def reports(self) -> list[Report]:
        """What is new since it was last asked, oldest first."""
        ...

    async def changed(self, timeout_s: float) -> bool:
        """Wait until there may be reports, or nodes have come or gone; False when nothing came in time."""
        ...

    def forget(self, attempt: Attempt) -> None:
        """The end of this attempt is stored: its reports will not be asked for again."""
        ...

    def processes(self, attempt: Attempt) -> list[WorkerFacts]:
        """The workers of an attempt, as far as they can be asked now."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What a person might want to know about the engine, as JSON values."""
        ...
