"""The messages of the API, in both directions: the one vocabulary of server, client and command line.

Times ``_s`` that name a moment are Unix seconds; every other ``_s`` is a duration.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["viewer", "user", "admin"]


class Message(BaseModel):
    """Immutable; a reader ignores fields that only a newer server knows."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class SharedCode(BaseModel):
    """The directory is used as it is: every node sees it under the same path."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["shared"] = "shared"


class PackagedCode(BaseModel):
    """The directory travels: it was sent before, as the package with this digest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["package"] = "package"
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    subdirectory: str = Field(default="", max_length=4096, description="Where in the package the job runs.")
    top: str = Field(default="", max_length=4096, description="The directory that was packed, where it was.")


SentCode = Annotated[SharedCode | PackagedCode, Field(discriminator="kind")]


class Submission(BaseModel):
    """A job to be stored.  ``spec`` is what a person would write in a YAML file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    spec: dict[str, Any]
    directory: str = Field(
        min_length=1, max_length=4096, description="Where the job was submitted; it runs there."
    )
    key: str | None = Field(
        default=None, min_length=1, max_length=200, description="A repeated key of one user means the same job."
    )
    code: SentCode | None = Field(
        default=None, description="Where nodes find the directory; null leaves it to them to have it."
    )


class Submitted(Message):
    """The job is stored and will not be forgotten."""

    id: str
    name: str
    repeated: bool = False
    warnings: list[str] = []


class Eta(Message):
    """A moment as a range, and what it rests on; None where nothing can be said."""

    low_s: float | None = None
    mid_s: float | None = None
    high_s: float | None = None
    basis: str = ""


class Ahead(Message):
    """A job before this one."""

    id: str
    name: str
    owner: str
    workers: int
    state: str
    eta: Eta | None = None
    """When it will have ended, and with it what it holds becomes free."""


class JobSummary(Message):
    """A line of the queue."""

    id: str
    name: str
    tenant: str
    owner: str
    state: str
    kind: str
    klass: str = "normal"
    priority: int = 0
    workers: int = 0
    min_workers: int = 1
    max_workers: int | None = None
    nodes: dict[str, int] = {}
    submitted_s: float
    started_s: float | None = None
    ended_s: float | None = None
    attempt: int = 0
    progress: float | None = None
    batch: int | None = None
    goodput: float | None = None
    eta: Eta | None = None
    reason: str = ""
    """Why it waits, or why it ended."""
    held: bool = False
    pinned: int | None = None
    waits_for: list[Ahead] = []
    """Who holds what a job needs before it can be as its owner asked for, where it was scaled or moved."""


class Training(Message):
    """What the job itself reported last."""

    at_s: float
    step: int
    epoch: int
    epochs: int | None = None
    loss: float | None = None
    metrics: dict[str, float] = {}
    batch: int = 0
    per_worker: int = 0
    accumulation: int = 0
    lr_factor: float = 1.0
    samples_per_s: float = 0.0
    efficiency: float | None = None
    goodput: float | None = None
    noise: float | None = None
    resizes: int = 0
    pauses_s: float = 0.0
    redone_steps: int = 0
    workers_lost: int = 0
    checkpoint_step: int | None = None


class CurvePoint(Message):
    """Speed with so many workers, relative to one."""

    workers: int
    speedup: float
    measured: bool = False
    chosen: bool = False


class Step(Message):
    """One transition of a job's life."""

    at_s: float
    source: str
    target: str
    cause: str
    detail: str = ""


class WorkerInfo(Message):
    """A process of a job."""

    name: str
    node: str
    pid: int | None = None
    doing: str = ""


class ExitInfo(Message):
    """How the latest attempt that is over ended; ``reason`` says it in words."""

    kind: str
    code: int | None = None
    signal: int | None = None


class JobDetail(JobSummary):
    """The message with everything about one job."""

    spec: dict[str, Any]
    directory: str
    kind_reason: str = ""
    code_from: str = ""
    """How its files come to its nodes, in words; nothing where they simply lie in its directory."""
    code: int | None = None
    exit: ExitInfo | None = None
    training: Training | None = None
    curve: list[CurvePoint] = []
    life: list[Step] = []
    processes: list[WorkerInfo] = []


class Instead(Message):
    """What another wish would bring."""

    change: str
    starts: str
    helps: bool


class Why(Message):
    """Why a job is not running, or not larger: one binding reason."""

    id: str
    state: str
    reason: str
    numbers: dict[str, float] = {}
    ahead: list[Ahead] = []
    advice: list[str] = []
    instead: list[Instead] = []


NodeState = Literal["up", "suspect", "draining", "leaving", "unfit", "lost"]


class NodeInfo(Message):
    """A node and who is on it."""

    id: str
    slots: int
    used: int
    accelerator: str
    state: NodeState
    since_s: float | None = None
    """Since when it is lost."""
    until_s: float | None = None
    """When it is taken away, where that is known."""
    why: str = ""
    """Why nothing may be placed there."""
    address: str = ""
    accelerators: int = 0
    """Devices that it has; 0 where slots are shares of its cores."""
    accelerator_memory_gb: float | None = None
    """Memory of each of them."""
    cores: int | None = None
    memory_gb: float | None = None
    pool: str = ""
    jobs: dict[str, int] = {}


class PoolInfo(Message):
    """A kind of node of which there can be more or fewer."""

    name: str
    accelerator: str
    slots: int
    """Of one node."""
    now: int
    wanted: int
    least: int
    most: int
    idle_s: float
    """How long a node stays that nobody uses."""
    price_per_hour: float = 0.0
    """Of one node."""
    budget_per_hour: float | None = None
    """For all of its nodes; None is no limit."""


class PolicyInfo(Message):
    """The policy in charge, its figures, and its shadow."""

    policy: str
    title: str = ""
    period_s: float | None = None
    decisions: int = 0
    last_ms: float | None = None
    problem: str = ""
    shadow: str | None = None
    shadow_differs: int = 0
    """Decisions in which the shadow policy would have done otherwise ..."""
    shadow_decisions: int = 0
    """... of so many."""
    shadow_last: str = ""


class ServerInfo(Message):
    """Version, policy and size of the server that answers."""

    version: str
    api: int = 1
    home: str
    started_s: float
    policy: str
    slots: int
    nodes: int
    jobs: dict[str, int] = {}
    warnings: list[str] = []
    machine: str = ""
    """Which machine (and which of its file systems) it sees, as a digest."""
    elsewhere: int = 0
    """Nodes on other machines, to which a job's directory has to travel unless all machines share it."""


class PackageInfo(Message):
    """A package that is here."""

    digest: str
    bytes: int


class EventRecord(Message):
    """An entry of the event log."""

    seq: int
    at_s: float
    kind: str
    job: str | None = None
    body: dict[str, Any] = {}


class LogFile(Message):
    """A log of a job."""

    attempt: int
    worker: str
    bytes: int
    leader: bool = False


class UserInfo(Message):
    """A user, with role and tenant."""

    name: str
    role: Role
    tenant: str


class TokenInfo(Message):
    """A token, without what makes it one."""

    id: str
    user: str
    label: str = ""
    created_s: float
    expires_s: float | None = None
    revoked: bool = False


class NewToken(TokenInfo):
    """The only time a token is seen."""

    token: str


class QuotaInfo(Message):
    """What a tenant may hold; with ``lends`` others may use what it leaves free."""

    tenant: str
    slots: int | None = None
    weight: float = 1.0
    lends: bool = True
    used: int = 0


class AuditRecord(Message):
    """An entry of the audit log: who asked for which change."""

    seq: int
    at_s: float
    user: str
    action: str
    target: str = ""
    outcome: str = ""


class Problem(Message):
    """An error, for people (``error``) and for programs."""

    error: str
    kind: str = "error"
    problems: list[dict[str, str]] = []
