"""Defines every message between a node on another machine and the hub.

Nodes and hub may be of different versions while a cluster is upgraded: what is added gets a default, and a change of
what is there a new ``PROTOCOL``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, field

from elastane.engines.nodes.attempt_package import AttemptPackage
from elastane.engines.nodes.log_parts import LogOffsets, LogPart, Offset
from elastane.train.coordinator.wire import Line, Message

PROTOCOL = 1
Count = Annotated[int, Meta(ge=0, le=2**53)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
Word = Annotated[str, Meta(max_length=255)]
Gigabytes = Annotated[float, Meta(ge=0.0, le=1e9)]


class NodeDevice(Struct, frozen=True):
    """One accelerator of a node."""

    id: Word
    kind: Word
    memory_gb: Gigabytes = 0.0
    name: Word = ""


class NodeHello(Message, frozen=True, tag="hello"):
    """The first words of a node on a new line: who it is, what it offers and what it still runs."""

    protocol: Count
    node: Name
    incarnation: Word
    cluster: Word = ""
    """The cluster that it belonged to last; empty at first."""
    address: Word = ""
    """Where other nodes reach it."""
    cores: Count = 0
    memory_gb: Gigabytes = 0.0
    devices: tuple[NodeDevice, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    """Of ``elastane``, ``python`` and ``torch``, as far as they are there."""
    attempts: dict[str, bool] = field(default_factory=dict)
    """Attempts that have processes here."""
    clock_s: float = 0.0
    """What time it is there."""
    pool: Word = ""
    """The kind of machine, as whoever supplies machines calls it."""
    logs: tuple[Word, ...] = ()
    """Attempts whose logs were not sent to their end: the node goes on where the hub says that the head is."""


class TunnelHello(Message, frozen=True, tag="tunnel"):
    """Ask for a way to a supervisor's port on the head; the line carries its bytes after ``Opened``."""

    session: Word
    port: Annotated[int, Meta(ge=1, le=65535)]


class PackageHello(Message, frozen=True, tag="fetch"):
    """Ask for the archive of a package of this node's attempts; its bytes follow ``Opened``."""

    session: Word
    digest: Word


class Beat(Message, frozen=True, tag="beat"):
    """A sign of life, from either side."""


class Answer(Message, frozen=True, tag="answer"):
    """What the agent answered to the request of this number."""

    number: Count
    body: dict[str, Any]


class Ended(Message, frozen=True, tag="ended"):
    """Nothing is left of an attempt that the node was told to end."""

    attempt: Word


class Farewell(Message, frozen=True, tag="farewell"):
    """The node has ended everything and will not come back by itself."""


class Leaving(Message, frozen=True, tag="leaving"):
    """The node's machine will be taken away in so many seconds, as a spot machine is: jobs should leave it."""

    in_s: Annotated[float, Meta(ge=0.0, le=1e9)]


FirstOfNode = NodeHello | TunnelHello | PackageHello
FIRST_OF_NODE: Line[FirstOfNode] = Line("a node", *get_args(FirstOfNode))
FromNode = Beat | Answer | Ended | LogPart | Leaving | Farewell
FROM_NODE: Line[FromNode] = Line("a node", *get_args(FromNode))


class Welcome(Message, frozen=True, tag="welcome"):
    """The hub takes the node in; it counts once it has ended what is named here."""

    session: str
    cluster: str
    lease_s: float
    end: tuple[str, ...] = ()
    unfit: str = ""
    """Why nothing will be placed there, if so."""


class Opened(Message, frozen=True, tag="opened"):
    """What follows are the bytes of whoever listens at the port, or of a package."""

    size: Count = 0
    """How many bytes a package has."""


class AttemptTold(Message, frozen=True, tag="attempt"):
    """What a node has to know of an attempt before the request for its fork server comes."""

    attempt: str
    package: AttemptPackage | None = None
    """The code that it has to have; none where the job's directory is the same everywhere."""
    offsets: dict[str, Offset] = field(default_factory=dict)
    """How far the head has the log of each worker of the job."""
    shared: bool = False
    """The node sees the head's disk: the run folder is the same one, and nothing has to be sent."""


Why = Literal["version", "own", "taken", "superseded", "missing", "unknown"]
"""Only that a name is taken may change soon by itself; what is missing stays so."""


class Refused(Message, frozen=True, tag="refused"):
    """The hub does not take the node in, or opens no tunnel; the line ends after that."""

    cause: str
    why: Why = "unknown"


class Request(Message, frozen=True, tag="request"):
    """A request to the node's agent (``agent_messages.ToAgent``), to be answered under its number."""

    number: Count
    body: dict[str, Any]


ToNode = Welcome | Opened | Refused | Request | AttemptTold | LogOffsets | Beat
TO_NODE: Line[ToNode] = Line("the hub", *get_args(ToNode))
